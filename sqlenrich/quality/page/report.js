"use strict";
(() => {
  // The search in the sample of rows: a row is shown where it has all words.
  const field = document.getElementById("search");
  if (!field) return;
  const rows = [...document.querySelectorAll("#rows tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const count = document.getElementById("found");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every((word) => texts[at].includes(word));
      if (!row.hidden) found += 1;
    });
    count.textContent = words.length ? `${found} of ${rows.length} rows` : "";
  });
})();
