
// The page. Everything is computed anew 150 ms after the last change.
const WAIT_MS = 150;
const MOST_REQUESTS = 20000;
const MOST_ROWS = 200;
const LARGEST_LOG = 32e6;
const RATES = [0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200];
const DURATIONS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 3600];
const REPLAY_MS = 60000;

let diana;
let recipes = [];
let sampleLog = "";
let mode = "script";
let log;
// The last reply with requests, and which of its cases is shown.
let requests = [];
let cases = [];

// Several lines whose hidden characters are written as their numbers.
const visibleLines = (text) => String(text).split("\n").map(visible).join("\n");
function seconds(number) {
  for (const [name, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (number >= 2 * length) return +(number / length).toFixed(1) + " " + name;
  }
  return number >= 1 || number === 0 ? +number.toFixed(2) + " s" : Math.round(number * 1000) + " ms";
}
function show(text) {
  write(by("trouble"), text);
  by("trouble").hidden = text === "";
}

// Editors.
const LINE = 20;
const editors = Object.fromEntries(["document", "cases"].map((id) => [id, editor(by(id))]));
function editor(field) {
  const list = field.parentElement.querySelector(".lines");
  let marks = [];
  let count = 0;
  const scroll = () => { list.style.transform = "translateY(" + -field.scrollTop + "px)"; };
  const draw = () => {
    const now = field.value.split("\n").length;
    if (now !== count) {
      count = now;
      list.replaceChildren(Array.from({ length: now }, (_, at) => at + 1).join("\n"), ...marks);
    }
    scroll();
  };
  field.addEventListener("scroll", scroll);
  field.addEventListener("input", () => {
    draw();
    changed();
  });
  // A new line begins below the one before.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const line = field.value.slice(0, field.selectionStart).split("\n").at(-1);
    const indent = line.match(/^ */)[0];
    if (indent !== "" && document.execCommand("insertText", false, "\n" + indent)) event.preventDefault();
  });
  return {
    set(text) {
      field.value = text;
      field.scrollTop = 0;
      draw();
    },
    // The worst finding of each line.
    mark(findings) {
      const worst = new Map();
      for (const { line, isError } of findings) worst.set(line, isError || worst.get(line) === true);
      marks = [...worst].map(([line, isError]) => {
        const mark = make("span", { className: isError ? "at error" : "at", textContent: line });
        mark.style.top = 8 + (line - 1) * LINE + "px";
        return mark;
      });
      count = 0;
      draw();
    },
    // Columns count characters, from 1.
    select(from, to) {
      const lines = field.value.split("\n");
      const offset = ({ line, column }) => {
        const before = lines.slice(0, line - 1).reduce((all, text) => all + text.length + 1, 0);
        return before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
      };
      const start = offset(from);
      field.focus();
      field.setSelectionRange(start, Math.max(start, to ? offset(to) : start));
      field.scrollTop = Math.max(0, (from.line - 4) * LINE);
      draw();
    },
  };
}

// The document and its findings.
let hasErrors = false;
const documentText = () => by("document").value.toWellFormed();
async function check() {
  const text = documentText();
  const reply = await diana.ask("check", { document: text });
  if (!reply || text !== documentText()) return;
  if (reply.error !== undefined) {
    write(by("verdict"), "The document cannot be checked: " + visible(reply.error));
    return;
  }
  const findings = [...reply.findings, ...invisible(text)];
  const errors = findings.filter(({ severity }) => severity === "error").length;
  const warnings = findings.length - errors;
  hasErrors = errors > 0;
  const rules = sum(reply.documents.map(({ rules }) => Number(rules) || 0));
  const parts = [];
  if (errors > 0) parts.push(plural(errors, "error"));
  if (warnings > 0) parts.push(plural(warnings, "warning"));
  write(by("verdict"), parts.length > 0 ? parts.join(", ") : "No mistakes: " + plural(rules, "rule"));
  by("verdict").classList.toggle("alarm", errors > 0);
  editors.document.mark(findings.map(({ line, severity }) => ({ line, isError: severity === "error" })));
  by("findings").replaceChildren(...findings.map((finding) => {
    const isError = finding.severity === "error";
    const button = make("button", { type: "button" },
      make("strong", { textContent: "Line " + finding.line + ": " }),
      make("span", { textContent: visible(finding.message) }));
    button.addEventListener("click", () => editors.document.select(finding, finding.end));
    const item = make("li", { className: isError ? "error" : "warning" }, button);
    if (finding.hint) item.append(make("p", { className: "sub", textContent: visible(finding.hint) }));
    if (/^https:\/\//.test(finding.page ?? "")) {
      const name = String(finding.code).replace("diana::", "");
      item.append(make("a", { href: finding.page, target: "_blank", rel: "noreferrer", className: "sub", textContent: "About " + visible(name) }));
    }
    return item;
  }));
}
// A link may come from anybody, and what nobody sees may change what a document means.
function invisible(text) {
  const found = [];
  text.split("\n").forEach((line, at) => {
    const letters = [...line.replaceAll("\t", " ").replace(/\r$/, "")];
    const column = letters.findIndex((letter) => visible(letter) !== letter) + 1;
    if (column === 0) return;
    const message = "this line has a character that cannot be seen, " + visible(letters[column - 1]);
    found.push({ line: at + 1, column, end: { line: at + 1, column: column + 1 }, severity: "warning", message });
  });
  return found.slice(0, 20);
}

// Traffic. What cannot be run leaves the last chart, and says so.
function failed(element, error, isOwn = false) {
  write(element, hasErrors && !isOwn ? "Nothing is run: the document has errors" : visibleLines(error));
  element.classList.add("alarm");
  element.classList.toggle("long", element.textContent.includes("\n"));
  write(by("result-title"), "What passed before the change");
}
function succeeded(element, text) {
  write(element, text);
  element.classList.remove("alarm", "long");
  write(by("result-title"), "What passes");
}
async function test() {
  const asked = { document: documentText(), cases: by("cases").value.toWellFormed() };
  const slow = setTimeout(() => write(by("tested"), "Running …"), 500);
  const reply = await diana.ask("test", asked);
  clearTimeout(slow);
  if (!reply || mode !== "script") return;
  const { report } = reply;
  if (!report) {
    failed(by("tested"), reply.error);
    by("case-list").replaceChildren();
    write(by("coverage"), "");
    editors.cases.mark([]);
    return;
  }
  const wrong = report.cases.filter(({ failures }) => failures.length > 0);
  const sentence = plural(report.cases.length - wrong.length, "case") + " passed, " + wrong.length + " failed";
  succeeded(by("tested"), sentence);
  by("tested").classList.toggle("alarm", wrong.length > 0);
  editors.cases.mark(report.cases.flatMap(({ failures }) => failures.map(({ line }) => ({ line, isError: true }))));
  by("case-list").replaceChildren(...report.cases.map(caseItem));
  const [reached, all] = report.branches;
  const never = report.uncovered.map(({ rule, never }) => visible(rule) + " " + visible(never));
  const more = never.length > 0 ? "; never: " + never.join(", ") : "";
  write(by("coverage"), "The cases reach " + reached + " of " + all + (all === 1 ? " branch" : " branches") + " of rules" + more + ".");
  cases = report.cases;
  drawRequests(reply.requests);
}
function caseItem({ name, requests, failures }) {
  const isFailed = failures.length > 0;
  const item = make("li", { className: isFailed ? "failed" : "passed" },
    make("strong", { textContent: isFailed ? "Failed: " : "Passed: " }),
    visible(name) + " (" + plural(Number(requests) || 0, "request") + ")");
  for (const { line, why, explanation } of failures) {
    for (const text of why) item.append(make("p", { textContent: visible(text) }));
    const details = make("details", {}, make("summary", { textContent: "Why, and where: line " + line }));
    const go = make("button", { type: "button", textContent: "Go to line " + line });
    go.addEventListener("click", () => editors.cases.select({ line, column: 1 }));
    const text = make("pre", { tabIndex: 0, role: "region", ariaLabel: "Explanation", textContent: visibleLines(explanation ?? "") });
    details.append(text, make("p", { className: "buttons" }, go));
    item.append(details);
  }
  return item;
}

const SLIDERS = { clients: null, rate: RATES, seconds: DURATIONS, burst: null };
function sliders() {
  const all = { method: by("method").value.trim(), url: by("url").value, header: by("header").value.trim() };
  for (const [id, values] of Object.entries(SLIDERS)) {
    all[id] = values ? values[by(id).valueAsNumber] : by(id).valueAsNumber;
  }
  return all;
}
function setSliders(all) {
  for (const id of ["method", "url", "header"]) by(id).value = String(all[id] ?? "");
  for (const [id, values] of Object.entries(SLIDERS)) {
    const wanted = Number(all[id]) || 0;
    const near = (index) => Math.abs(values[index] - wanted);
    by(id).value = values ? [...values.keys()].reduce((best, index) => (near(index) < near(best) ? index : best)) : wanted;
  }
  nameSliders();
}
function nameSliders() {
  const { clients, rate, seconds: duration, burst } = sliders();
  const words = { clients: plural(clients, "client"), rate: rate + " a second", seconds: seconds(duration), burst: plural(burst, "request") };
  for (const [id, text] of Object.entries(words)) {
    write(by(id).nextElementSibling, text);
    attribute(by(id), "aria-valuetext", text);
  }
}
async function send() {
  const { header, ...rest } = sliders();
  const count = rest.clients * (rest.burst + Math.floor(rest.rate * rest.seconds));
  if (count > MOST_REQUESTS) {
    diana.forget("traffic");
    failed(by("sent"), "These are " + whole(count) + " requests, and at most " + whole(MOST_REQUESTS) + " are possible: choose fewer clients, a lower rate or a shorter time", true);
    return;
  }
  const reply = await diana.ask("traffic", { document: documentText(), header: header || null, ...rest });
  if (!reply || mode !== "sliders") return;
  if (!reply.requests) {
    failed(by("sent"), reply.error);
    return;
  }
  succeeded(by("sent"), plural(rest.clients, "client") + ", " + whole(reply.requests.length) + " requests");
  cases = [];
  drawRequests(reply.requests);
}

// A log stays in the page.
async function read(file) {
  log = undefined;
  succeeded(by("replayed"), "Reading " + visible(file.name) + " …");
  try {
    if (file.size > LARGEST_LOG) throw new Error("the file has more than 32 MB");
    let bytes = new Uint8Array(await file.arrayBuffer());
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = await through(bytes, new DecompressionStream("gzip"), LARGEST_LOG);
    log = { name: file.name, text: new TextDecoder().decode(bytes) };
    refresh();
  } catch (error) {
    failed(by("replayed"), file.name + " cannot be read: " + error.message, true);
  }
}
async function replay() {
  if (!log) return;
  const { name, text } = log;
  write(by("replayed"), "Replaying " + visible(name) + " …");
  const reply = await diana.ask("replay", { document: documentText(), log: text }, REPLAY_MS);
  if (!reply || mode !== "log" || log?.text !== text) return;
  by("replay-report").hidden = !reply.summary;
  if (!reply.summary) {
    failed(by("replayed"), reply.error);
    return;
  }
  const { totals, timeline } = reply.summary;
  succeeded(by("replayed"), visible(name) + ": " + whole(totals.refused) + " of " + whole(totals.requests) + " requests would have been refused");
  write(by("replay-text"), visibleLines(reply.text));
  const passed = timeline.intervals.map((one) => one.requests - one.refused - one.delayed);
  const [delayed, refused] = ["delayed", "refused"].map((key) => timeline.intervals.map((one) => one[key]));
  by("result").hidden = false;
  by("timeline").hidden = by("case-field").hidden = true;
  write(by("outcome"), "");
  draw({ start: timeline.start_s, width: timeline.interval_s, isDate: true, series: { passed, delayed, refused } });
}

// The requests of the chosen case, or all.
function drawRequests(all) {
  requests = all;
  by("result").hidden = false;
  const names = cases.map((one, at) => at + 1 + ". " + one.name);
  by("case-field").hidden = cases.length < 2;
  options(by("case"), names);
  drawCase();
}
function drawCase() {
  const index = by("case").selectedIndex;
  const chosen = cases.length === 0 ? requests : requests.filter((one) => one.case === Math.max(index, 0));
  const count = (outcomes) => chosen.filter(({ outcome }) => outcomes.includes(outcome)).length;
  const refusing = new Map();
  for (const { outcome, by: rules } of chosen) {
    if (outcome === "refused") for (const rule of rules) refusing.set(rule, (refusing.get(rule) ?? 0) + 1);
  }
  const why = [...refusing].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([rule, times]) => visible(rule) + " " + whole(times));
  const parts = [whole(count(["pass", "allowed"])) + " passed"];
  if (count(["delayed"]) > 0) parts.push(whole(count(["delayed"])) + " delayed");
  parts.push(whole(count(["refused"])) + " refused" + (why.length > 0 ? " (" + why.join(", ") + ")" : ""));
  write(by("outcome"), plural(chosen.length, "request") + ": " + parts.join(", "));
  draw(bins(chosen));
  drawTimeline(chosen);
}
by("case").addEventListener("change", drawCase);

const BINS = 40;
const WIDTHS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
function bins(all) {
  const last = all.reduce((most, { at }) => Math.max(most, at), 0);
  const width = WIDTHS.find((width) => last < width * BINS) ?? Math.ceil((last + 1) / BINS / 86400) * 86400;
  const length = Math.max(Math.floor(last / width) + 1, 10);
  const series = Object.fromEntries(["passed", "delayed", "refused"].map((name) => [name, Array(length).fill(0)]));
  for (const { at, outcome } of all) {
    const name = outcome === "refused" || outcome === "delayed" ? outcome : "passed";
    series[name][Math.floor(at / width + 1e-9)] += 1;
  }
  return { start: 0, width, isDate: false, series };
}

// The chart: three paths of bars, which follow the colours of the page, and a text.
let drawn;
const instant = (at) => (drawn.isDate ? new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ") : seconds(at));
const from = (index) => instant(drawn.start + index * drawn.width);
function draw(chart) {
  drawn = chart;
  const { passed, delayed, refused } = chart.series;
  const length = passed.length;
  const totals = passed.map((number, at) => number + delayed[at] + refused[at]);
  const highest = Math.max(...totals, 0);
  const most = nice(highest);
  let below = Array(length).fill(0);
  attribute(by("plot-bars"), "viewBox", "0 0 " + Math.max(length, 1) + " 100");
  for (const [name, numbers] of Object.entries(chart.series)) {
    const y = (number) => (100 - (number / most) * 100).toFixed(2);
    const bar = (number, at) => (number === 0 ? "" : "M" + (at + 0.06).toFixed(2) + " " + y(below[at]) + "V" + y(below[at] + number) + "h0.88V" + y(below[at]) + "z");
    by("bars-" + name).setAttribute("d", numbers.map(bar).join(""));
    below = below.map((number, at) => number + numbers[at]);
  }
  write(by("plot-most"), compact(most));
  write(by("plot-half"), compact(most / 2));
  write(by("plot-start"), from(0));
  write(by("plot-middle"), from(length / 2));
  write(by("plot-end"), from(length));
  const words = whole(sum(passed)) + " passed, " + whole(sum(delayed)) + " delayed, " + whole(sum(refused)) + " refused; at most " +
    whole(highest) + " in " + seconds(chart.width);
  write(by("plot-text"), words);
  write(by("plot-title"), "Requests in each " + seconds(chart.width));
  drawNumbers();
}
function drawNumbers() {
  if (!drawn || !by("plot-numbers").open) return;
  const { passed, delayed, refused } = drawn.series;
  rows(by("plot-rows"), [...passed.keys()], String, (at) => [from(at), ...[passed, delayed, refused].map((numbers) => whole(numbers[at]))]);
}
by("plot-numbers").addEventListener("toggle", drawNumbers);
{
  const [plot, readout, cursor] = [by("plot"), document.querySelector("#result .readout"), document.querySelector("#plot .cursor")];
  const point = (event) => {
    if (!drawn) return;
    const { passed, delayed, refused } = drawn.series;
    const box = plot.getBoundingClientRect();
    const at = Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * passed.length), 0), passed.length - 1);
    write(readout, from(at) + ": " + whole(passed[at]) + " passed · " + whole(delayed[at]) + " delayed · " + whole(refused[at]) + " refused");
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, ((at + 0.5) / passed.length) * 100 + "%");
    cursor.classList.add("shown");
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", () => {
    write(readout, "\u00a0");
    cursor.classList.remove("shown");
  });
}

// The requests one by one.
let shown = [];
function drawTimeline(all) {
  shown = all;
  by("timeline").hidden = false;
  const wanted = by("show").value;
  const fits = ({ outcome }) => !wanted || outcome === wanted || (wanted === "pass" && outcome === "allowed");
  const chosen = all.map((one, at) => ({ ...one, index: at })).filter(fits);
  const first = chosen.slice(0, MOST_ROWS);
  write(by("timeline-note"), chosen.length > first.length ? "The first " + first.length + " of " + whole(chosen.length) : plural(chosen.length, "request"));
  rows(by("request-rows"), first, ({ index }) => String(index), (one) => [
    seconds(one.at),
    visible(one.client),
    (cell) => {
      write(cell, one.outcome === "pass" ? "passed" : String(one.outcome));
      cell.className = one.outcome === "refused" ? "outcome-refused" : "";
    },
    why(one),
    (cell) => {
      const request = explainable(one, all);
      if (!request) {
        cell.replaceChildren();
        return;
      }
      const button = cell.firstElementChild ?? make("button", { type: "button", textContent: "Explain" });
      if (!button.parentElement) cell.append(button);
      attribute(button, "aria-label", "Explain the request at " + seconds(one.at) + " of " + visible(one.client));
      button.onclick = () => explain(request);
    },
  ]);
}
by("show").addEventListener("change", () => drawTimeline(shown));
function why({ outcome, by: rules, delay }) {
  const names = rules.map(visible).join(", ");
  if (outcome === "refused") return names ? "by " + names : "";
  if (outcome === "delayed") return "waits " + seconds(delay) + (names ? " for " + names : "");
  return outcome === "allowed" ? "on the allow list" : "";
}
// The request that `explain` is asked about: as often as the client has sent it until then. After a
// burst the distances are those of the rate, so the counts are near the true ones.
function explainable(one, all) {
  // A case has explained what it did not expect.
  if (mode === "script") return undefined;
  const { method, url, header, rate } = sliders();
  const times = all.filter(({ client, at }, index) => client === one.client && (at < one.at || (at === one.at && index <= one.index))).length;
  const own = header ? { ip: "203.0.113.1", headers: [[header, one.client]] } : { ip: one.client, headers: [] };
  return { method, url, ...own, times, every_ms: one.at === 0 ? 0 : Math.round(1000 / rate) };
}
async function explain(request) {
  const reply = await diana.ask("explain", { document: documentText(), ...request });
  if (!reply) return;
  const { times, every_ms: every } = request;
  const apart = times > 1 ? ", " + (every > 0 ? seconds(every / 1000) + " apart" : "all at once") : "";
  write(by("explained-title"), plural(times, "request") + " of this client" + apart);
  write(by("explanation"), visibleLines(reply.text ?? reply.error));
  if (!by("explained").open) by("explained").showModal();
}

// Tabs, by pointer and arrow keys.
const tabs = MODES.map((name) => by("tab-" + name));
function choose(name) {
  mode = name;
  for (const tab of tabs) {
    const isChosen = tab.id === "tab-" + name;
    attribute(tab, "aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    by(tab.getAttribute("aria-controls")).hidden = !isChosen;
  }
  by("result").hidden = by("timeline").hidden = true;
}
tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => {
    choose(MODES[at]);
    refresh();
  });
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at + tabs.length - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    tabs[to % tabs.length].focus();
    tabs[to % tabs.length].click();
  });
});

// What changes.
let timer;
let isEdited = false;
function changed() {
  isEdited = true;
  document.body.dataset.busy = "true";
  write(by("copied"), "");
  clearTimeout(timer);
  timer = setTimeout(refresh, WAIT_MS);
}
function refresh() {
  clearTimeout(timer);
  timer = undefined;
  if (!diana) return;
  check();
  for (const [kind, of] of [["test", "script"], ["traffic", "sliders"], ["replay", "log"]]) if (mode !== of) diana.forget(kind);
  ({ script: test, sliders: send, log: replay })[mode]();
}
for (const id of ["method", "url", "header", ...Object.keys(SLIDERS)]) {
  by(id).addEventListener("input", () => {
    nameSliders();
    changed();
  });
}
addEventListener("beforeunload", (event) => { if (isEdited) event.preventDefault(); });

by("file").addEventListener("change", () => { if (by("file").files[0]) read(by("file").files[0]); });
by("sample").addEventListener("click", () => {
  log = { name: "access.log", text: sampleLog };
  refresh();
});
// A file that misses its place must not replace the page.
const isFile = (event) => event.dataTransfer.types.includes("Files");
addEventListener("dragover", (event) => {
  if (!isFile(event)) return;
  event.preventDefault();
  by("drop").classList.add("over");
  if (mode !== "log") {
    choose("log");
    refresh();
  }
});
addEventListener("dragleave", (event) => { if (!event.relatedTarget) by("drop").classList.remove("over"); });
addEventListener("drop", (event) => {
  if (!isFile(event)) return;
  event.preventDefault();
  by("drop").classList.remove("over");
  const [file] = event.dataTransfer.files;
  if (file) read(file);
});

// Links and recipes.
const state = () => ({ document: by("document").value, mode, cases: by("cases").value, sliders: sliders() });
function restore({ document, mode, cases, sliders }) {
  editors.document.set(document);
  editors.cases.set(cases);
  setSliders(sliders);
  choose(mode);
  isEdited = false;
  refresh();
}
let written = "";
async function setHash() {
  written = await toLink(state());
  location.hash = written;
  isEdited = false;
}
by("copy").addEventListener("click", async () => {
  await setHash();
  try {
    await navigator.clipboard.writeText(location.href);
    write(by("copied"), "The link is copied, " + whole(location.href.length) + " characters" + (mode === "log" ? ", without the log" : ""));
  } catch {
    write(by("copied"), "The link is in the address bar");
  }
});
by("recipe").addEventListener("change", async () => {
  const { value } = by("recipe");
  if (!value) return;
  // The browser's way back leads to what was there.
  if (isEdited) await setHash();
  location.hash = "recipe=" + value;
});
async function open() {
  const hash = location.hash.slice(1);
  // The page's own links lead to elements.
  if ((hash === written && hash !== "") || by(hash)) return;
  show("");
  written = "";
  const [, name] = hash.match(/^recipe=(.*)$/) ?? [];
  const recipe = recipes.find((one) => one.name === name);
  by("recipe").value = recipe ? name : "";
  if (recipe) {
    restore({ ...EXAMPLE, document: recipe.document, cases: recipe.cases, mode: "script" });
    return;
  }
  try {
    restore(hash === "" ? EXAMPLE : await fromLink(hash));
  } catch {
    show(name === undefined ? "This link cannot be read. Perhaps a part of it is missing." : "There is no recipe " + visible(name) + ".");
    restore(EXAMPLE);
  }
}
addEventListener("hashchange", open);

// The data behind the page: recipes and the sample log as JSON, after its length, then the engine.
async function start() {
  restore(EXAMPLE);
  const packed = Uint8Array.from(atob(by("data").textContent), (letter) => letter.charCodeAt(0));
  const data = await through(packed, new DecompressionStream("gzip"), 1e8);
  const length = new DataView(data.buffer).getUint32(0, true);
  const texts = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  ({ recipes, log: sampleLog } = texts);
  by("recipe").append(...recipes.map(({ name, title }) => make("option", { value: name, textContent: title })));
  diana = new Engine(data.slice(4 + length), () => { document.body.dataset.busy = String(timer !== undefined); });
  if (by(location.hash.slice(1))) refresh();
  else await open();
}
start().catch((error) => show("This browser cannot run the playground: " + error.message + "."));
