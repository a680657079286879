"""Calls whose replies are lost: nothing is created twice, and what the vendor did is found again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sqlenrich.llm.batch.errors import GoneError, ReplyLostError, UnavailableError
from sqlenrich.llm.batch.vendor import CLOCK_SKEW
from tests.llm.batch.vendors import BEGAN, BOTH, IDS, KEY, collect, lines_of, submit, vendor
from tests.support.batch_vendors import FakeVendors

both = pytest.mark.parametrize("name", BOTH)
OTHERS = tuple(f"{number:064x}" for number in range(100, 106))


def test_an_upload_without_a_reply_is_found_by_its_name() -> None:
    with FakeVendors(lose=["upload"]) as fake, vendor(fake, "openai") as opened:
        assert opened.find_upload(KEY, BEGAN) is None
        with pytest.raises(ReplyLostError, match="gave no reply when asked to take the file of a batch"):
            opened.upload(KEY, lines_of(opened))
        assert fake.calls["upload"] == 1
        (file_id,) = fake.files
        assert opened.find_upload(KEY, datetime.now(UTC)) == file_id
        assert opened.find_upload(KEY, datetime.now(UTC) + 2 * CLOCK_SKEW) is None
        assert opened.find_upload("another", BEGAN) is None
        lines = collect(opened, opened.create(KEY, file_id))
    assert set(lines) == set(IDS)
    assert set(fake.billed.values()) == {1}


@both
@pytest.mark.parametrize("lost", ["lose", "broken"])
def test_a_batch_whose_reply_is_lost_is_found(name: str, lost: str) -> None:
    with FakeVendors(**{lost: ["create"]}) as fake, vendor(fake, name) as opened:  # type: ignore[arg-type]
        with pytest.raises(ReplyLostError):
            submit(opened)
        assert fake.calls["create"] == 1, "the SDK asked again"
        (batch,) = fake.all_batches()
        (found,) = opened.find(KEY, datetime.now(UTC), len(IDS), IDS)
        assert found.vendor_id == batch.id
        lines = collect(opened, found)
    assert set(lines) == set(IDS)
    assert set(fake.billed.values()) == {1}


@both
def test_a_creation_that_was_not_done_is_repeated_by_the_caller(name: str) -> None:
    with FakeVendors(drop=["create"]) as fake, vendor(fake, name) as opened:
        file_id = opened.upload(KEY, lines_of(opened))
        with pytest.raises(ReplyLostError):
            opened.create(KEY, file_id)
        assert opened.find(KEY, BEGAN, len(IDS), IDS) == []
        lines = collect(opened, opened.create(KEY, file_id))
    assert set(lines) == set(IDS)
    assert set(fake.billed.values()) == {1}


@both
@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_a_failure_of_the_vendor_may_have_created_a_batch(name: str, status: int) -> None:
    with FakeVendors() as fake, vendor(fake, name) as opened:
        fake.statuses["create"] = [(status, {"error": {"message": "bad gateway"}})]
        with pytest.raises(ReplyLostError, match=f"HTTP {status}: bad gateway"):
            submit(opened)
        assert fake.calls["create"] == 1


def test_a_vendor_without_metadata_is_searched_by_the_name_of_the_file() -> None:
    with FakeVendors(keeps_metadata=False, hold=True) as fake, vendor(fake, "openai") as opened:
        first, second = submit(opened), submit(opened, "run-1-b", OTHERS)
        assert (first.key, second.key) == (None, None)
        found = [opened.find(key, BEGAN, len(IDS), IDS) for key in (KEY, "run-1-b", "run-1-c")]
    assert [[info.vendor_id for info in infos] for infos in found] == [[first.vendor_id], [second.vendor_id], []]
    assert found[0][0].key == KEY


@both
def test_a_batch_is_found_on_any_page_of_the_list(name: str) -> None:
    with FakeVendors(page_size=2) as fake, vendor(fake, name) as opened:
        ours = submit(opened)
        for number in range(5):
            submit(opened, f"later-{number}", OTHERS)
        for batch in fake.all_batches():
            fake.end(batch)
        found = opened.find(KEY, BEGAN, len(IDS), IDS)
    assert [info.vendor_id for info in found] == [ours.vendor_id]
    assert fake.calls["list"] >= 3


def test_batches_of_others_with_as_many_requests_are_told_apart_by_their_answers() -> None:
    with FakeVendors(hold=True) as fake, vendor(fake, "anthropic") as opened:
        others, ours = submit(opened, "theirs", OTHERS), submit(opened)
        submit(opened, "more", (*OTHERS, *IDS))
        found = opened.find(KEY, BEGAN, len(IDS), IDS)
        assert [(info.vendor_id, info.key) for info in found] == [(others.vendor_id, None), (ours.vendor_id, None)]
        fake.end()
        found = opened.find(KEY, BEGAN, len(IDS), IDS)
        assert [(info.vendor_id, info.key) for info in found] == [(ours.vendor_id, KEY)]


def test_the_requests_of_a_message_batch_are_kept_until_it_is_there() -> None:
    with FakeVendors() as fake:
        with vendor(fake, "anthropic") as opened:
            file_id = opened.upload(KEY, lines_of(opened))
            opened.create(KEY, file_id)
            with pytest.raises(GoneError, match="not there any more"):
                opened.create(KEY, file_id)
            left = opened.upload(KEY, lines_of(opened))
        with vendor(fake, "anthropic") as opened, pytest.raises(GoneError):
            opened.create(KEY, left)
        assert fake.calls["create"] == 1


@both
@pytest.mark.parametrize("fault", ["lose", "broken"])
@pytest.mark.parametrize("page", ["state", "cancel"])
def test_calls_that_create_nothing_are_repeated(name: str, fault: str, page: str) -> None:
    with FakeVendors(hold=True) as fake, vendor(fake, name) as opened:
        info = submit(opened)
        getattr(fake, fault)[page] = 1
        asked = opened.cancel if page == "cancel" else opened.state
        assert asked(info.vendor_id).open
        assert fake.calls[page] == 2


@both
def test_answers_that_break_off_are_an_error(name: str) -> None:
    with FakeVendors(broken=["content"]) as fake, vendor(fake, name) as opened:
        info = opened.state(submit(opened).vendor_id)
        with pytest.raises(UnavailableError):
            list(opened.results(info))
        assert {line.custom_id for line in opened.results(info)} == set(IDS)
