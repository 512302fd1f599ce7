// The key of this start is in the link, after `#`. The tab keeps it, and the address bar does not
// show it any longer.
const stored = "diana-console-key";
const isKey = () => /^#[0-9a-f]{32}$/.test(location.hash);
if (isKey()) {
  sessionStorage.setItem(stored, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}
// A browser does not load the page anew for a link that differs after `#` alone.
addEventListener("hashchange", () => { if (isKey()) location.reload(); });
const key = sessionStorage.getItem(stored) ?? "";

const SECONDS = 60;
const MEAN = 5;
const SLOW_MS = 3000;
// The console itself waits for gateways as long as `--timeout` says, which is at most 300 s.
const PATIENCE_MS = 310000;
const OUTCOMES = ["ok", "shadow", "refused", "error"];
const rate = (number) => (number === 0 ? "0" : number < 9.95 ? number.toFixed(1) : whole(Math.round(number)));
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function span(ms) {
  if (!ms) return "–";
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  for (const [name, length] of units) {
    if (ms >= 2 * length || (name === "s" && ms >= length)) return +(ms / length).toFixed(1) + " " + name;
  }
  return Math.round(ms) + " ms";
}
// From a day on also the instant, in UTC. The end of a calendar's period is a whole minute.
function again(ms) {
  if (ms < 86400000) return span(ms);
  const at = new Date(Math.round((Date.now() + ms) / 60000) * 60000);
  return span(ms) + ", " + at.toISOString().slice(0, 16).replace("T", " ");
}
function unit(ms) {
  const names = { 1000: "second", 60000: "minute", 3600000: "hour", 86400000: "day" };
  return names[ms] ?? span(ms);
}

function badge(text, isAlarm) {
  return make("span", { className: isAlarm ? "badge alarm" : "badge", textContent: text });
}
// A cell with a text and badges.
function marked(text, badges, where) {
  return (cell) => {
    const state = JSON.stringify([text, badges, where]);
    if (cell.dataset.state === state) return;
    cell.dataset.state = state;
    const parts = [text, ...badges.flatMap(([word, isAlarm]) => [" ", badge(word, isAlarm)])];
    if (where) parts.push(make("span", { className: "where", textContent: where }));
    cell.replaceChildren(...parts);
  };
}

// A text in the colour of what needs an operator.
function alarm(element, text, isAlarm) {
  write(element, text);
  element.classList.toggle("alarm", isAlarm);
}
const alarming = (text, isAlarm) => (cell) => alarm(cell, text, isAlarm);

async function ask(path, body, patience = PATIENCE_MS) {
  const headers = { "x-diana-key": key };
  const request = { headers, cache: "no-store", signal: AbortSignal.timeout(patience) };
  if (body) {
    request.method = "POST";
    request.body = JSON.stringify(body);
    headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch("api/" + path, request);
  } catch {
    throw new Error("The console does not answer. Is `diana console` still running?");
  }
  if (!response.ok) throw new Error("The console refuses (status " + response.status + "): " + (await response.text()));
  return response.json();
}

// What the gateways say, added up. Lists end with the latest second, so they are added from there.
let gateways = [];
let rules = [];
// A gateway that is being asked keeps its last answer, which is not counted as one of now.
const isSlow = ({ error, age_ms }) => !error && age_ms > SLOW_MS;
const isFresh = (gateway) => !gateway.error && gateway.age_ms !== null && !isSlow(gateway);
function latest(numbers) {
  const known = (numbers ?? []).slice(-SECONDS);
  return [...Array(SECONDS - known.length).fill(0), ...known.map((number) => Number(number) || 0)];
}
function collect() {
  const found = new Map();
  const rule = (name) => {
    if (!found.has(name)) {
      const series = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, Array(SECONDS).fill(0)]));
      found.set(name, { name, forms: new Map(), actors: [], series, known: false });
    }
    return found.get(name);
  };
  for (const gateway of gateways) {
    const { policy, rates } = gateway;
    for (const one of policy?.rules ?? []) {
      const words = whole(one.rpu) + " a " + unit(one.unit_ms);
      // The rest of the algorithm repeats the quota in nanoseconds.
      const enforced = { "": "", "0%": "shadow", "100%": "" }[one.enforce ?? ""] ?? "enforced for " + one.enforce;
      const more = [one.scope, (one.algorithm ?? "").split(" ")[0], enforced];
      const form = JSON.stringify([words, more.filter(Boolean).map(visible).join(", ")]);
      const entry = rule(one.name);
      entry.forms.set(form, (entry.forms.get(form) ?? 0) + 1);
      entry.actors = one.actors ?? entry.actors;
    }
    if (!isFresh(gateway)) continue;
    for (const one of rates?.rules ?? []) {
      const entry = rule(one.rule);
      entry.known = true;
      for (const outcome of OUTCOMES) {
        latest(one[outcome]).forEach((number, at) => { entry.series[outcome][at] += number; });
      }
    }
  }
  for (const entry of found.values()) {
    entry.now = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, sum(entry.series[outcome].slice(-MEAN)) / MEAN]));
  }
  rules = [...found.values()];
}

// The rule that the chart, the list of actors and the look-up are about. Until the user chooses
// one, it is the rule that refuses most when the first refusals are known.
let chosen = "";
let isChosen = false;
function showChosen() {
  const names = rules.map(({ name }) => name);
  const before = chosen;
  if (!isChosen || !names.includes(chosen)) {
    const refused = ({ series }) => sum(series.refused);
    const worst = rules.reduce((worst, rule) => (refused(rule) > refused(worst) ? rule : worst), rules[0]);
    isChosen = worst !== undefined && refused(worst) > 0;
    if (isChosen || !names.includes(chosen)) chosen = worst?.name ?? "";
  }
  for (const id of ["chart-rule", "top-rule", "actor-rule"]) {
    options(by(id), names);
    if (by(id).value !== chosen) by(id).value = chosen;
  }
  if (chosen === before) return;
  nameActors();
  drawTop(false);
}
// The actor in the fields is looked up anew if the rule counts it, too.
function choose(name) {
  if (name === chosen) return;
  [chosen, isChosen] = [name, true];
  nameActors();
  if (target && fields().every(([name, value]) => !name || value)) lookUp();
  else forget();
  draw();
  drawTop(false);
}
for (const id of ["chart-rule", "top-rule", "actor-rule"]) by(id).addEventListener("change", () => choose(by(id).value));
// The most frequent value; the others differ.
function usual(values) {
  const counts = new Map();
  values.forEach((value) => counts.set(value, (counts.get(value) ?? 0) + 1));
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

// A chart of so few numbers is four paths: they follow the colours of the page, and have a text.
// A path goes over the upper steps and back over the lower, once for each run that has a height.
function area(above, below, most) {
  const y = (number) => (100 - (number / most) * 100).toFixed(1);
  let path = "";
  for (let at = 0; at < above.length; at += 1) {
    if (above[at] <= below[at]) continue;
    const first = at;
    path += "M" + first + " " + y(below[first]);
    for (; at < above.length && above[at] > below[at]; at += 1) path += "V" + y(above[at]) + "h1";
    for (let back = at - 1; back >= first; back -= 1) path += "V" + y(below[back]) + "h-1";
    path += "z";
  }
  return path;
}
function drawChart() {
  const rule = rules.find(({ name }) => name === chosen);
  const series = rule?.series ?? Object.fromEntries(OUTCOMES.map((outcome) => [outcome, Array(SECONDS).fill(0)]));
  let below = Array(SECONDS).fill(0);
  const stacks = OUTCOMES.map((outcome) => (below = below.map((number, at) => number + series[outcome][at])));
  const highest = Math.max(...stacks.at(-1));
  const most = nice(highest);
  attribute(by("plot-areas"), "viewBox", "0 0 " + SECONDS + " 100");
  OUTCOMES.forEach((outcome, at) => {
    by("area-" + outcome).setAttribute("d", area(stacks[at], stacks[at - 1] ?? Array(SECONDS).fill(0), most));
  });
  write(by("plot-most"), compact(most));
  write(by("plot-half"), compact(most / 2));
  const words = rule
    ? visible(rule.name) + ", the last minute: " + whole(sum(series.ok)) + " admitted, " + whole(sum(series.shadow)) +
      " admitted in shadow mode only, " + whole(sum(series.refused)) + " refused, " + whole(sum(series.error)) +
      " errors; at most " + whole(highest) + " in a second"
    : "No numbers yet.";
  write(by("plot-text"), words);
  if (by("chart-numbers").open) {
    const seconds = Array.from({ length: SECONDS }, (_, at) => SECONDS - 1 - at);
    rows(by("chart-rows"), seconds, String, (at) => [
      String(SECONDS - at), ...OUTCOMES.map((outcome) => whole(series[outcome][at])),
    ]);
  }
}
{
  const [plot, readout, cursor] = [by("plot"), document.querySelector("#chart .readout"), document.querySelector("#plot .cursor")];
  const show = (event) => {
    const box = plot.getBoundingClientRect();
    const at = Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * SECONDS), 0), SECONDS - 1);
    const rule = rules.find(({ name }) => name === chosen);
    if (!rule) return;
    const names = ["admitted", "shadow", "refused", "errors"];
    const parts = OUTCOMES.map((outcome, index) => whole(rule.series[outcome][at]) + " " + names[index]);
    write(readout, SECONDS - at + " s ago: " + parts.join(" · "));
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, ((at + 0.5) / SECONDS) * 100 + "%");
    cursor.classList.add("shown");
  };
  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerdown", show);
  plot.addEventListener("pointerleave", () => {
    write(readout, "\u00a0");
    cursor.classList.remove("shown");
  });
  by("chart-numbers").addEventListener("toggle", draw);
}

function spark(rule) {
  return (cell) => {
    let svg = cell.firstElementChild;
    if (!svg) {
      svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("class", "spark");
      svg.setAttribute("role", "img");
      svg.setAttribute("viewBox", "0 0 " + SECONDS + " 100");
      svg.setAttribute("preserveAspectRatio", "none");
      for (const name of ["requests", "refused", "base"]) {
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("class", name);
        svg.append(path);
      }
      svg.lastElementChild.setAttribute("d", "M0 100H" + SECONDS);
      cell.append(svg);
    }
    const { ok, shadow, refused, error } = rule.series;
    const all = ok.map((number, at) => number + shadow[at] + refused[at] + error[at]);
    const most = Math.max(...all, 1);
    const none = all.map(() => 0);
    // A single refusal must be visible, so the square root lifts small numbers.
    const lifted = (numbers) => area(numbers.map(Math.sqrt), none, Math.sqrt(most));
    svg.children[0].setAttribute("d", lifted(all));
    svg.children[1].setAttribute("d", lifted(refused));
    attribute(svg, "aria-label", whole(sum(refused)) + " of " + whole(sum(all)) + " refused in the last minute");
  };
}
const leftOff = () => Math.max(0, ...gateways.filter(isFresh).map(({ rates }) => rates?.left_off ?? 0));
function drawRules() {
  rows(by("rule-rows"), rules, (rule) => rule.name, (rule, row) => {
    row.classList.toggle("chosen", rule.name === chosen);
    const forms = [...rule.forms.keys()].map((form) => JSON.parse(form));
    const number = (outcome) => (rule.known ? rate(rule.now[outcome]) : "–");
    return [
      (cell) => {
        if (cell.firstElementChild) return;
        const button = make("button", { type: "button", textContent: visible(rule.name), title: "Show this rule" });
        button.addEventListener("click", () => choose(rule.name));
        cell.append(button);
      },
      marked(forms.map(([words]) => words).join(" or "), forms.length > 1 ? [["differs", true]] : [], forms[0]?.[1]),
      number("ok"),
      number("refused"),
      number("shadow"),
      alarming(number("error"), rule.now.error > 0),
      spark(rule),
    ];
  });
  const answering = gateways.filter(isFresh);
  const without = answering.filter(({ rates }) => !rates);
  const notes = without.map(({ gateway, rates_error }) => visible(gateway) + " tells no rates: " + visible(rates_error) + ".");
  if (leftOff() > 0) notes.push(plural(leftOff(), "more rule") + " of a gateway tell no rates.");
  const unshown = Math.max(0, ...gateways.map(({ left_off }) => left_off));
  if (unshown > 0) notes.push(plural(unshown, "more rule") + " of a gateway are not shown.");
  by("rates-note").hidden = notes.length === 0;
  write(by("rates-note"), notes.join(" "));
}

// Two values that are unknown may differ.
const isOther = (value, usual) => (value ?? "") !== usual || value === "unknown";

function drawGateways() {
  const known = gateways.filter((gateway) => gateway.policy && isFresh(gateway));
  const most = (field) => usual(known.map(({ policy }) => policy[field] ?? ""));
  const [fingerprint, version, secret] = ["fingerprint", "version", "store_secret"].map(most);
  const field = (policy, value, expected, isKnown, where) =>
    policy ? marked(visible(value || "–"), isKnown && isOther(value, expected) ? [["differs", true]] : [], where) : "–";
  rows(by("gateway-rows"), gateways, ({ gateway }) => gateway, (one, row) => {
    const { gateway, error, age_ms, policy, rates } = one;
    row.classList.toggle("down", Boolean(error));
    const age = age_ms === null ? "it has not answered yet" : "its last answer is " + Math.round(age_ms / 1000) + " s old";
    const isNew = !error && age_ms === null;
    const generation = policy?.generation ? "generation " + policy.generation : "local document";
    return [
      visible(gateway),
      (cell) => {
        cell.className = "why";
        const words = error ? visible(error) : isNew ? "asked for the first time" : isSlow(one) ? "" : "answers";
        marked(words, error ? [["down", true]] : isSlow(one) ? [["slow", true]] : [], error || isSlow(one) ? age : "")(cell);
      },
      field(policy, policy?.fingerprint, fingerprint, isFresh(one), generation),
      field(policy, policy?.version, version, isFresh(one)),
      field(policy, policy?.store_secret, secret, isFresh(one)),
      rates && isFresh(one) ? whole(rates.waiting) : "–",
    ];
  });
}
// What an operator has to know first: who is silent, which store is down, and who differs.
const mean = (numbers) => sum(latest(numbers).slice(-MEAN)) / MEAN;
// A gateway has a breaker in each worker: the one that answers may not have called the store yet.
function isDown({ breaker, calls, failed }) {
  return (breaker !== "" && breaker !== "closed") || (mean(calls) > 0 && mean(failed) >= mean(calls));
}
function drawTotals(stores) {
  const known = gateways.filter((gateway) => gateway.policy && isFresh(gateway));
  const [up, missing] = [known.length, gateways.length - known.length];
  const silent = plural(missing, "gateway") + " silent or down";
  write(by("total-gateways"), up + " of " + gateways.length);
  alarm(by("note-gateways"), missing === 0 ? "all answer" : silent, missing > 0);

  // What a gateway does not tell is no difference.
  const varieties = (field) => new Set(known.map(({ policy }) => policy[field]).filter(Boolean)).size;
  const documents = varieties("fingerprint");
  write(by("total-documents"), String(documents));
  alarm(by("note-documents"), documents > 1 ? "they differ" : "the same in all that answer", documents > 1);

  const down = stores.filter(isDown);
  const names = (list) => [...new Set(list.map(({ store }) => store))];
  const alone = new Set(down.map(({ gateway }) => gateway)).size;
  const named = (list) => (names(list).length === 1 ? visible(names(list)[0]) : plural(names(list).length, "store"));
  const outage = () => named(down) + (names(down).length === 1 ? " is down: " : " are down: ") +
    plural(alone, "gateway") + (alone === 1 ? " decides alone" : " decide alone");
  const shared = new Set(stores.map(({ gateway }) => gateway)).size;
  alarm(by("total-stores"), stores.length === 0 ? "none" : alone === 0 ? "up" : "down", alone > 0);
  const where = alone === 0 ? plural(shared, "gateway") : alone + " of " + plural(shared, "gateway");
  write(by("note-stores"), stores.length === 0 ? "" : named(alone === 0 ? stores : down) + " in " + where);

  const troubles = [];
  if (up === 0) troubles.push("no gateway answers");
  else if (missing > 0) troubles.push(silent);
  if (alone > 0) troubles.push(outage());
  const differ = ["fingerprint", "version", "store_secret"].some((field) => {
    const values = known.map(({ policy }) => policy[field]).filter(Boolean);
    return values.some((value) => isOther(value, usual(values)));
  });
  if (differ) troubles.push("gateways differ");
  alarm(by("headline"), troubles.length === 0 ? "All gateways answer" : upper(troubles.join("; ")), troubles.length > 0);
  const asked = gateways.map(({ gateway }) => visible(gateway));
  write(by("range"), asked.length > 3 ? asked.slice(0, 3).join(", ") + " and " + (asked.length - 3) + " more" : asked.join(", "));

  const answering = gateways.filter((gateway) => gateway.rates && isFresh(gateway));
  const haveRates = answering.length > 0;
  const total = (outcome) => sum(rules.map((rule) => rule.now[outcome]));
  write(by("total-refused"), haveRates ? rate(total("refused")) : "–");
  alarm(by("total-errors"), haveRates ? rate(total("error")) : "–", total("error") > 0);
  const which = "a second, " + (leftOff() > 0 ? "without " + plural(leftOff(), "rule") : "all rules");
  for (const outcome of ["refused", "errors"]) write(by("note-" + outcome), which);
  write(by("total-waiting"), haveRates ? whole(sum(answering.map(({ rates }) => rates.waiting ?? 0))) : "–");
}
function drawStores() {
  const answering = gateways.filter((gateway) => gateway.rates && isFresh(gateway));
  const stores = answering.flatMap(({ gateway, rates }) => (rates.stores ?? []).map((store) => ({ gateway, ...store })));
  by("no-stores").hidden = stores.length > 0;
  by("store-panel").hidden = stores.length === 0;
  rows(by("store-rows"), stores, ({ gateway, store }) => gateway + " " + store, (store) => [
    visible(store.gateway),
    visible(store.store),
    isDown(store) ? marked("", [["down", true]]) : marked("answers", []),
    rate(mean(store.calls)),
    alarming(rate(mean(store.failed)), mean(store.failed) > 0),
  ]);
  drawTotals(stores);
}
function draw() {
  collect();
  showChosen();
  drawChart();
  drawRules();
  drawGateways();
  drawStores();
}

// Who asks replaces what is asked, and polls do not: as long as a gateway keeps silent, so does the
// answer of all, and a poll every few seconds would never let it come.
let topAsked = 0;
let isTopPending = false;
async function drawTop(isPoll) {
  const rule = chosen;
  if (!rule || (isPoll && isTopPending)) return;
  const turn = ++topAsked;
  isTopPending = true;
  if (!isPoll) {
    by("top-panel").hidden = true;
    write(by("top-note"), "Asking the gateways …");
  }
  const query = "rule=" + encodeURIComponent(rule) + "&by=" + by("top-by").value;
  let answers;
  try {
    answers = await ask("top?" + query);
  } catch (error) {
    answers = [];
    write(by("top-note"), error.message);
  }
  // A later question, for another rule, has replaced this one.
  if (turn !== topAsked) return;
  isTopPending = false;
  const told = answers.filter(({ answer }) => answer);
  const actors = new Map();
  for (const { gateway, answer } of told) {
    for (const { actor, name, count, error } of answer.actors) {
      const pairs = Object.entries(actor ?? {}).sort();
      // Gateways agree on a hash if they have the secret of their store in common.
      const where = pairs.some(([, value]) => isHash(value)) ? under(gateway) : "";
      const id = JSON.stringify([rule, where, pairs]);
      const one = actors.get(id) ?? { id, pairs, where, count: 0, error: 0 };
      one.name ??= name;
      one.count += count;
      one.error += error;
      actors.set(id, one);
    }
  }
  const list = [...actors.values()].sort((a, b) => b.count - a.count || (a.id < b.id ? -1 : 1)).slice(0, 20);
  by("top-panel").hidden = list.length === 0;
  rows(by("top-rows"), list, ({ id }) => id, ({ pairs, name: customer, where, count, error }) => [
    marked(
      visible(pairs.map(([name, value]) => name + "=" + value).join(" ") || "everybody"),
      customer ? [[visible(customer), false]] : [],
      visible(where),
    ),
    whole(count),
    whole(error),
    (cell) => {
      if (cell.firstElementChild) return;
      const why = notFound(pairs);
      if (why) {
        cell.replaceChildren(make("span", { className: "where", textContent: why }));
        return;
      }
      const button = make("button", { type: "button", textContent: "Look up" });
      button.addEventListener("click", () => {
        fill(pairs);
        lookUp();
      });
      cell.append(button);
    },
  ]);
  const wrong = answers.filter(({ error }) => error).map(({ gateway, error }) => visible(gateway) + ": " + visible(error) + ".");
  const since = told.map(({ answer }) => answer.since_ms).filter(Boolean);
  const notes = since.length > 0 ? ["Since " + new Date(Math.min(...since)).toISOString().slice(11, 19) + " UTC."] : [];
  if (told.length > 0 && list.length === 0) notes.push("Nobody yet.");
  if (answers.length > 0) write(by("top-note"), [...notes, ...wrong].join(" "));
  markActor();
}
// The row of the actor that is looked up. `shown` are the actors as gateways list them, if they
// hide a value.
let shown = [];
function markActor() {
  const id = (where, pairs) => target && JSON.stringify([target.rule, where, [...pairs].sort()]);
  const ids = [id("", target?.actor ?? []), ...shown.map(({ gateway, actor }) => id(under(gateway), Object.entries(actor)))];
  for (const row of by("top-rows").rows) row.classList.toggle("chosen", ids.includes(row.dataset.id));
}
by("top-by").addEventListener("change", () => drawTop(false));

function under(gateway) {
  const secret = gateways.find((one) => one.gateway === gateway)?.policy?.store_secret;
  return secret && secret !== "unknown" ? "under the secret " + secret : "in " + gateway;
}
const isHash = (value) => /^#[0-9a-f]{16}$/.test(value);
// Why these values of a list do not lead to the actor: gateways would look for another one.
function notFound(pairs) {
  const values = pairs.map(([, value]) => value);
  if (values.some(isHash)) return "hidden value: only its hash is known";
  if (values.some((value) => value.endsWith("…"))) return "the value is cut";
  if (pairs.length > 2) return "more than two values: use diana ctl";
  return "";
}

// One actor. What was looked up stays on the page and is asked again, until something else is.
let target = null;
let lookUps = 0;
let isLookUpPending = false;
function fill(pairs) {
  by("actor-plan").value = "";
  const [first = ["", ""], second] = pairs;
  [by("actor-name").value, by("actor-value").value] = first;
  [by("actor-name-2").value, by("actor-value-2").value] = second ?? ["", ""];
  showSecond(Boolean(second));
}
function showSecond(isShown) {
  document.querySelectorAll(".second").forEach((field) => { field.hidden = !isShown; });
  write(by("more"), isShown ? "One actor" : "Two actors");
}
const fields = () => ["", "-2"].map((end) => [by("actor-name" + end).value.trim(), by("actor-value" + end).value]);
// The fields for the actors of the chosen rule, if a gateway has told their names. Values of the
// same names stay.
function nameActors() {
  const actors = rules.find(({ name }) => name === chosen)?.actors ?? [];
  const values = new Map(fields());
  if (actors.length > 0) fill(actors.slice(0, 2).map((name) => [name, values.get(name) ?? ""]));
}
by("more").addEventListener("click", () => {
  by("actor-name-2").value = by("actor-value-2").value = "";
  showSecond(document.querySelector(".second").hidden);
});
const actorText = ({ actor, plan }) =>
  visible((actor.map(([name, value]) => name + "=" + value).join(" ") || "everybody") + (plan ? " with the plan " + plan : ""));
function lookUp() {
  target = { rule: chosen, actor: fields().filter(([name, value]) => name && value) };
  const plan = by("actor-plan").value.trim();
  if (plan) target.plan = plan;
  shown = [];
  markActor();
  // The buttons below the old actor must not change the new one.
  by("found").hidden = true;
  by("happened").replaceChildren(make("p", { id: "looking", textContent: "Asking the gateways …" }));
  return drawActor("first");
}
by("search").addEventListener("submit", (event) => {
  event.preventDefault();
  lookUp();
});
function forget() {
  target = null;
  by("found").hidden = true;
  by("happened").replaceChildren();
  markActor();
}
async function drawActor(reason) {
  if (reason === "poll" && isLookUpPending) return;
  const turn = ++lookUps;
  const asked = target;
  isLookUpPending = true;
  let answers;
  try {
    answers = await ask("actor", asked);
  } catch (error) {
    // The next poll says that the console is gone; a first look-up must not end in silence.
    if (reason === "first" && turn === lookUps) happened("Nothing was looked up", [{ gateway: "", error: error.message }]);
  }
  if (turn !== lookUps) return;
  isLookUpPending = false;
  if (!answers || asked !== target) return;
  by("looking")?.remove();
  showFound(answers);
}
function showFound(answers) {
  shown = answers.filter(({ answer }) => answer?.actor).map(({ gateway, answer }) => ({ gateway, actor: answer.actor }));
  markActor();
  by("found").hidden = false;
  write(by("found-title"), visible(target.rule) + ", " + actorText(target));
  rows(by("found-rows"), answers, ({ gateway }) => gateway, ({ gateway, answer, error }, row) => {
    row.classList.toggle("down", Boolean(error));
    const numbers = answer ? [
      whole(answer.used), whole(answer.remaining), whole(answer.quota) + " a " + unit(answer.quota_ms),
      again(answer.more_in_ms), span(answer.full_in_ms), span(answer.penalty_ms),
      answer.granted ? whole(answer.granted) + " for " + span(answer.granted_for_ms) : "–",
      answer.reserved === undefined ? "–" : whole(answer.reserved),
    ] : Array(8).fill("–");
    return [visible(gateway), ...numbers, (cell) => {
      cell.className = "why";
      marked(answer ? (answer.is_refused ? "" : "admitted") : visible(error), answer?.is_refused ? [["refused", false]] : [])(cell);
    }];
  });
}
function happened(title, answers, good) {
  const list = answers.map(({ gateway, answer, error }) => {
    const text = answer ? good(answer) : visible(error);
    return make("li", { className: answer ? "" : "wrong", textContent: (gateway ? visible(gateway) + ": " : "") + text });
  });
  by("happened").replaceChildren(make("h3", { textContent: title }), make("ul", {}, ...list));
}

const CHANGES = {
  reset: {
    title: "Reset this actor?", yes: "Reset", done: "Reset",
    text: "forgets what it has counted, and ends the penalty",
    good: (answer) => whole(answer.used) + " used, " + whole(answer.remaining) + " remaining",
  },
  grant: {
    title: "Grant more?", yes: "Grant", done: "Granted",
    text: "admits more for some time. A gateway that counts alone gives the whole grant",
    good: (answer) => whole(answer.granted) + " granted for " + span(answer.granted_for_ms) + ", " + whole(answer.remaining) + " remaining",
  },
  penalty: {
    title: "End the penalty?", yes: "End", done: "Penalty ended",
    text: "ends the penalty, and goes on counting",
    good: (answer) => (answer.penalty_ms ? "the penalty goes on for " + span(answer.penalty_ms) : "no penalty") + ", " + whole(answer.remaining) + " remaining",
  },
};
let change = null;
for (const name of Object.keys(CHANGES)) {
  by("do-" + name).addEventListener("click", () => {
    const { title, yes, text } = CHANGES[name];
    change = { name, target };
    write(by("ask-title"), title);
    write(by("ask-text"), "In " + plural(gateways.length, "gateway") + ", the rule " + visible(target.rule) + " " + text + ". The actor is " + actorText(target) + ".");
    write(by("ask-yes"), yes);
    by("ask-grant").hidden = by("grant-help").hidden = name !== "grant";
    // A hidden field must not stop the answer.
    by("grant-amount").disabled = by("grant-for").disabled = name !== "grant";
    by("ask").returnValue = "";
    by("ask").showModal();
    (name === "grant" ? by("grant-amount") : by("ask-no")).focus();
  });
}
// No submit button: Enter in a field must not mean it.
by("ask-no").addEventListener("click", () => by("ask").close(""));
by("ask").addEventListener("close", async () => {
  const asked = change;
  change = null;
  if (!asked || by("ask").returnValue !== "yes") return;
  const { done, good } = CHANGES[asked.name];
  const body = { ...asked.target };
  if (asked.name === "grant") Object.assign(body, { amount: by("grant-amount").valueAsNumber, for: by("grant-for").value });
  const buttons = document.querySelectorAll("#found .buttons button");
  buttons.forEach((button) => { button.disabled = true; });
  const about = visible(body.rule) + ", " + actorText(body);
  try {
    const answers = await ask(asked.name, body);
    const all = answers.every(({ answer }) => answer);
    const some = answers.some(({ answer }) => answer);
    const isUnknown = answers.some(({ answer, is_certain }) => !answer && !is_certain);
    const title = all ? done
      : some ? done + (isUnknown ? " in some gateways, and perhaps in the others" : " in some gateways only")
      : isUnknown ? "This may have taken effect, and repeating it is safe" : "Nothing has changed";
    happened(title + ": " + about, answers, good);
    if (asked.target === target) await drawActor("changed");
  } catch (error) {
    happened("Nobody knows whether this took effect: " + about, [{ gateway: "", error: error.message }]);
  }
  buttons.forEach((button) => { button.disabled = false; });
  by("do-" + asked.name).focus();
});

// Once a second, and never two at a time. A hidden page asks nothing.
const STATE_MS = 3000;
let ticks = 0;
let isAsking = false;
async function tick() {
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    gateways = (await ask("state", undefined, STATE_MS)).gateways;
    draw();
    by("trouble").hidden = true;
    document.body.classList.remove("old");
    if (ticks % 3 === 0) drawTop(true);
    if (target && ticks % 2 === 0 && !by("ask").open) drawActor("poll");
    ticks += 1;
  } catch (error) {
    write(by("trouble"), error.message);
    by("trouble").hidden = false;
    alarm(by("headline"), gateways.length > 0 ? "These numbers are old" : "There are no numbers", true);
    document.body.classList.add("old");
  }
  isAsking = false;
}
async function run() {
  const began = performance.now();
  await tick();
  setTimeout(run, Math.max(100, 700 - (performance.now() - began)));
}
document.addEventListener("visibilitychange", tick);
run();
