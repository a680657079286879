"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const place = "sqlenrich-review:" + data.sheet;
  const WORDS = { right: "✓ right", wrong: "✗ wrong", unsure: "? unsure" };
  // One list a row, one entry a field: null, or {verdict, expected?}.
  let state = { at: 0, rows: data.rows.map(() => data.fields.map(() => null)) };
  let field = 0;
  let digits = "";

  try {
    const kept = JSON.parse(localStorage.getItem(place));
    if (kept && kept.rows.length === data.rows.length) state = kept;
  } catch { /* kept by nothing: begin anew */ }

  function make(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const shown = (value) => value === null ? "(none)" : typeof value === "string" ? value : JSON.stringify(value);
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const answer = (at) => data.rows[state.at].values[at];
  const judged = (row) => state.rows[row].every((one) => one);

  function keep() {
    try {
      localStorage.setItem(place, JSON.stringify(state));
    } catch {
      byId("kept").textContent = "This browser keeps nothing over a reload: save before you close the page.";
      byId("kept").classList.add("warn");
    }
  }
  function mark(at, verdict, expected) {
    state.rows[state.at][at] = verdict && (expected === undefined ? { verdict } : { verdict, expected });
    digits = "";
    keep();
    draw();
  }
  function pick(at, value) {
    mark(at, same(value, answer(at)) ? "right" : "wrong", same(value, answer(at)) ? undefined : value);
  }
  function go(row) {
    if (row < 0 || row >= data.rows.length) return;
    state.at = row;
    field = 0;
    digits = "";
    keep();
    draw();
    scrollTo(0, 0);
  }
  function restIsRight() {
    state.rows[state.at] = state.rows[state.at].map((one) => one || { verdict: "right" });
    if (state.at + 1 < data.rows.length) go(state.at + 1);
    else { keep(); draw(); }
  }
  function focusField(at) {
    field = Math.max(0, Math.min(data.fields.length - 1, at));
    digits = "";
    draw();
    document.querySelector(".field.now").scrollIntoView({ block: "nearest" });
  }

  function write(at) {
    const given = make("input");
    given.setAttribute("aria-label", "The right value of " + data.fields[at].name);
    const entry = state.rows[state.at][at];
    given.value = shown(entry && "expected" in entry ? entry.expected : answer(at));
    given.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") draw();
      if (event.key !== "Enter") return;
      event.preventDefault();
      try {
        pick(at, data.fields[at].text ? given.value : JSON.parse(given.value));
      } catch {
        given.setAttribute("aria-invalid", "true");
      }
    });
    document.querySelectorAll(".field")[at].append(given);
    given.focus();
    given.select();
  }

  function drawField(at) {
    const one = data.fields[at], entry = state.rows[state.at][at];
    const box = make("section", at === field ? "field now" : "field");
    const head = make("h2", "", one.name);
    head.append(make("span", "mark " + (entry ? entry.verdict : ""), entry ? WORDS[entry.verdict] : "open"));
    box.append(head, make("div", "answer", shown(answer(at))));
    if (one.description) box.append(make("div", "quiet", one.description));
    if (entry && "expected" in entry) box.append(make("div", "expected", "right: " + shown(entry.expected)));
    if (one.choices) {
      const list = make("div", "choices");
      one.choices.forEach((value, i) => {
        const picked = entry && ("expected" in entry ? same(entry.expected, value) : entry.verdict === "right" && same(value, answer(at)));
        const button = make("button", (same(value, answer(at)) ? "given " : "") + (picked ? "picked" : ""));
        button.type = "button";
        const number = one.choices.length > 9 ? String(i + 1).padStart(2, "0") : String(i + 1);
        if (at === field) button.append(make("kbd", "", number));
        button.append(shown(value));
        button.addEventListener("click", () => { field = at; pick(at, value); });
        list.append(button);
      });
      box.append(list);
    }
    box.addEventListener("click", (event) => { if (event.target === box) focusField(at); });
    return box;
  }

  function draw() {
    const row = data.rows[state.at], done = state.rows.filter((_, at) => judged(at)).length;
    byId("key").replaceChildren(...row.key.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", shown(value))]));
    byId("own").textContent = row.text;
    byId("fields").replaceChildren(...data.fields.map((_, at) => drawField(at)));
    byId("count").textContent = `row ${state.at + 1} of ${data.rows.length}, ${done} judged`;
    byId("done").value = done;
  }

  function save() {
    const verdicts = data.rows.flatMap((row, at) => data.fields.flatMap((one, i) => {
      const entry = state.rows[at][i];
      return entry ? [{ request: row.request, answer: row.answer, field: one.name, ...entry }] : [];
    }));
    const text = JSON.stringify({ ...data.about, sheet: data.sheet, verdicts }, null, 1);
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = data.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const KEYS = {
    y: restIsRight, n: () => mark(field, "wrong"), u: () => { mark(field, "unsure"); focusField(field + 1); },
    e: () => write(field), s: save, Backspace: () => mark(field, null),
    ArrowUp: () => focusField(field - 1), ArrowDown: () => focusField(field + 1),
    ArrowLeft: () => go(state.at - 1), ArrowRight: () => go(state.at + 1),
  };
  function digit(key) {
    const choices = data.fields[field].choices || [];
    digits += key;
    if (choices.length > 9 && digits.length < 2) return;
    const value = choices[Number(digits) - 1];
    digits = "";
    if (value !== undefined) pick(field, value);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (/^[0-9]$/.test(key)) digit(key);
    else if (Object.hasOwn(KEYS, key)) KEYS[key]();
    else return;
    event.preventDefault();
  });
  for (const [id, act] of [["back", KEYS.ArrowLeft], ["next", KEYS.ArrowRight], ["save", save], ["rest", restIsRight]]) {
    byId(id).addEventListener("click", (event) => { act(); event.currentTarget.blur(); });
  }
  for (const [id, text] of [["before", data.before], ["after", data.after]]) {
    byId(id).hidden = !text;
    byId(id).lastElementChild.textContent = text;
  }
  draw();
})();
