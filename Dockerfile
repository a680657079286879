# sqlenrich with the clients of warehouses, batches and the gateway:
#   docker build -t sqlenrich .        (--build-arg EXTRAS=snowflake for fewer)
#   docker run --rm -v "$PWD:/work" -e OPENAI_API_KEY sqlenrich run tickets.prompt --input tickets.csv --output out.duckdb --yes
# Spark needs Java and has no place here: see docs/on-prem.md.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
ARG EXTRAS=batch,bigquery,databricks,gateway,snowflake
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY sqlenrich sqlenrich
COPY templates templates
RUN python3 -m venv /opt/sqlenrich \
    && /opt/sqlenrich/bin/pip install --no-cache-dir --disable-pip-version-check \
       ".[${EXTRAS}]"

FROM ${BASE}
LABEL org.opencontainers.image.source="https://github.com/sqlenrich/sqlenrich" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/sqlenrich /opt/sqlenrich
ENV PATH="/opt/sqlenrich/bin:$PATH" PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin sqlenrich \
    && install --directory --owner sqlenrich /work
USER 10001
WORKDIR /work
ENTRYPOINT ["sqlenrich"]
CMD ["--help"]
