// Progressive enhancement: every page can be read and used without this script.
"use strict";
(() => {
  const main = document.getElementById("main");
  const $ = (css, of = document) => of.querySelector(css);
  const all = (css, of = document) => [...of.querySelectorAll(css)];
  const add = (parent, name, props) => parent.appendChild(Object.assign(document.createElement(name), props));

  // ---- Replace what has changed. Elements are matched by id or data-row, and otherwise by position. ----
  const key = (n) => n.nodeType === 1 ? n.getAttribute("id") || n.getAttribute("data-row") || "" : ""; // a form field named id would shadow the property
  const mine = (from, name) => name === "open" && from.nodeName === "DETAILS" || name === "hidden" && from.matches(".lane") ||
    from.matches("input[data-complete]") && /^(role|list|aria-(autocomplete|controls|expanded|activedescendant))$/.test(name); // set by this script
  function morph(from, to) {
    if (from.isEqualNode(to)) return;
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || key(from) !== key(to)) { from.replaceWith(to); return; }
    if (from.nodeType !== 1) { from.data = to.data; return; }
    if (from.matches("code.cli") && from.firstChild.data === to.textContent) return; // it contains the copy button
    for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && !mine(from, a.name)) from.removeAttribute(a.name);
    for (const a of to.attributes) if (from.getAttribute(a.name) !== a.value && !mine(from, a.name)) from.setAttribute(a.name, a.value);
    children(from, to);
  }
  function children(from, to) {
    const old = new Map([...from.children].map((c) => [key(c), c]));
    let at = from.firstChild;
    const skip = () => { while (at && at.nodeType === 1 && at.hasAttribute("data-script")) at = at.nextSibling; }; // set by this script
    for (const next of [...to.childNodes]) {
      skip();
      const k = key(next), known = k && old.get(k);
      if (known) {
        if (known === at) at = at.nextSibling; else from.insertBefore(known, at);
        morph(known, next);
      } else if (!k && at && !key(at) && at.nodeName === next.nodeName) {
        const same = at;
        at = at.nextSibling;
        morph(same, next);
      } else from.insertBefore(next, at);
    }
    for (skip(); at; skip()) { const gone = at; at = at.nextSibling; gone.remove(); }
  }

  // ---- Additions to the markup of the server. They are repeated after each refresh. ----
  function decorate() {
    for (const code of all("code.cli")) {
      if (code.childElementCount) continue;
      const b = add(code, "button", { type: "button", className: "copy", textContent: "Copy" });
      b.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(code.firstChild.data); b.textContent = "Copied"; } catch { b.textContent = "Select and copy"; }
      });
    }
    timeline();
    all("input[data-complete]").forEach(complete);
    views();
    dispatchEvent(new Event("pawl-changed"));
  }

  addEventListener("pointerover", (e) => { // the local time
    const t = e.target.closest && e.target.closest("time[datetime]"), at = t && new Date(t.dateTime);
    if (t && !isNaN(at)) t.title = `${t.dateTime}\n${at.toLocaleString()} here`;
  });

  // ---- Live updates: events report that something has changed; the page is fetched again, and what differs is replaced. ----
  // A change is fetched at once, but on average a page uses at most a fifth of the server's time.
  const advance = 200; // milliseconds of server time that may be used in advance
  let source = null, last = "", busy = false, again = false, spent = 0, at = 0, later = 0;
  const state = (text) => { const s = $("#live"); if (s && s.textContent !== text) s.textContent = text; };
  async function refresh() {
    again = busy;
    if (busy) return;
    busy = true;
    clearTimeout(later);
    spent = Math.max(0, spent - (performance.now() - at) / 5);
    at = performance.now();
    if (spent > advance) await new Promise((done) => setTimeout(done, 5 * (spent - advance)));
    again = false; // this request includes all changes up to now
    const began = performance.now();
    let failed = true;
    try {
      const r = await fetch(location.href, { headers: { "Pawl-Part": "main" }, cache: "no-store" });
      if (r.redirected) { location.reload(); return; } // signed out
      if (r.status < 500) {
        failed = false;
        const shown = main.cloneNode(false);
        shown.innerHTML = await r.text(); // escaped by the server; scripts in it would not run
        children(main, shown);
        decorate();
        state("Live · ");
      } else state("Not answered · ");
    } catch { state("Not reached · "); }
    spent += performance.now() - began;
    busy = false;
    if (again) refresh(); else if (failed) later = setTimeout(refresh, 3000); else awaitRest(); // after an outage no event triggers a refresh
  }
  // awaitRest refreshes the page when the server has data that the page did not wait for.
  function awaitRest() {
    const rest = $("[data-later]", main);
    clearTimeout(later);
    if (rest) later = setTimeout(refresh, +rest.dataset.later);
  }
  function connect() {
    if (source || !main.dataset.live) return;
    source = new EventSource(last ? main.dataset.live.replace(/last=[^&]*$/, "last=" + encodeURIComponent(last)) : main.dataset.live);
    for (const kind of ["ready", "changes", "resync"]) {
      source.addEventListener(kind, (e) => { last = e.lastEventId; state("Live · "); if (kind !== "ready") refresh(); });
    }
    source.addEventListener("error", () => {
      state("Reconnecting · ");
      if (source && source.readyState === EventSource.CLOSED) { disconnect(); setTimeout(connect, 3000); }
    });
  }
  function disconnect() { if (source) source.close(); source = null; }
  let hiding = 0;
  document.addEventListener("visibilitychange", () => { // browsers limit the connections to a server across all tabs
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(disconnect, 10000); else connect();
  });
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", (e) => { if (e.persisted) connect(); });

  // ---- Timeline: zoom and filter. ----
  const whole = () => ({ from: 0, to: 1000 });
  let zoom = whole(), lanes = "";
  const span = (ms) => ms < 1000 ? `${Math.round(ms)}ms` : ms < 60000 ? `${+(ms / 1000).toFixed(ms < 10000 ? 2 : 1)}s` : ms < 3600000 ? `${+(ms / 60000).toFixed(1)}m` : `${+(ms / 3600000).toFixed(1)}h`;
  function timeline() {
    const box = $(".timeline");
    if (!box) return;
    const head = $("h2", box.parentElement);
    if (!$(".tools", head)) tools(head, box);
    const zoomed = zoom.to - zoom.from < 1000;
    box.classList.toggle("zoomed", zoomed);
    for (const svg of all("svg", box)) svg.setAttribute("viewBox", `${zoom.from} 0 ${zoom.to - zoom.from} 16`);
    const total = +box.dataset.ms, ticks = all(".ticks span", box);
    if (zoomed) ticks.forEach((t, i) => { t.textContent = "+" + span(total * (zoom.from + (zoom.to - zoom.from) * i / ticks.length) / 1000); });
    else ticks.forEach((t) => { t.textContent = t.dataset.text; });
    for (const lane of all(".lane:not(.axis)", box)) lane.hidden = lanes !== "" && !lane.textContent.toLowerCase().includes(lanes);
  }
  function zoomBy(factor, center = (zoom.from + zoom.to) / 2) {
    const width = Math.min(1000, Math.max(1, (zoom.to - zoom.from) * factor));
    const from = Math.min(1000 - width, Math.max(0, center - width * (center - zoom.from) / (zoom.to - zoom.from)));
    zoom = { from, to: from + width };
    timeline();
  }
  function pan(part) {
    const width = zoom.to - zoom.from, from = Math.min(1000 - width, Math.max(0, zoom.from + width * part));
    zoom = { from, to: from + width };
    timeline();
  }
  function tools(head, box) {
    const t = add(head, "span", { className: "tools" });
    t.dataset.script = "";
    const filter = add(add(t, "label", { textContent: "Lanes " }), "input", { type: "search", id: "lanes", placeholder: "filter", value: lanes });
    filter.addEventListener("input", () => { lanes = filter.value.trim().toLowerCase(); timeline(); });
    for (const [text, title, act] of [["−", "Zoom out (-)", () => zoomBy(2)], ["+", "Zoom in (+)", () => zoomBy(.5)], ["All", "Whole time (0)", () => { zoom = whole(); timeline(); }]]) {
      const b = add(t, "button", { type: "button", textContent: text, title });
      b.setAttribute("aria-label", title);
      b.addEventListener("click", act);
    }
    let down = null;
    const place = (e) => {
      const r = $(".plot", box).getBoundingClientRect();
      return Math.min(zoom.to, Math.max(zoom.from, zoom.from + (zoom.to - zoom.from) * (e.clientX - r.left) / r.width));
    };
    box.addEventListener("pointerdown", (e) => { down = e.target.closest("svg") && e.button === 0 ? { at: place(e), x: e.clientX } : null; });
    box.addEventListener("pointerup", (e) => {
      if (down && Math.abs(e.clientX - down.x) > 8) { const to = place(e); zoom = { from: Math.min(down.at, to), to: Math.max(down.at, to, Math.min(down.at, to) + 1) }; timeline(); }
      down = null;
    });
    box.addEventListener("dblclick", () => { zoom = whole(); timeline(); });
  }

  // ---- Completion of the filter: fields, operators, known values. ----
  const compare = { text: ["=", "!=", "in (", "starts"], time: [">", "<", ">=", "<="] };
  // offers returns the completions of a text, and how many characters at its end they replace.
  function offers(text, known) {
    const tokens = [...text.matchAll(/"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[\w\-.:+\/@]+|!=|<=|>=|[=<>!(),]/g)].map((m) => m[0]);
    const partial = tokens.length && /[^\s=<>(),]$/.test(text) ? tokens.pop() : "";
    let state = "field", field = "";
    for (const t of tokens) {
      if (state === "field") { field = t.toLowerCase(); state = "op"; }
      else if (state === "op") state = t.toLowerCase() === "in" ? "open" : "value";
      else if (state === "open") state = "values";
      else if (state === "values") state = "next";
      else if (state === "value") state = "and";
      else if (state === "next") state = t === "," ? "values" : "and";
      else state = "field";
    }
    const time = known.times.includes(field), word = (v) => /^[\w\-.:+\/@]+$/.test(v) && v !== "and" ? v : '"' + v.replace(/["\\]/g, "\\$&") + '"';
    const values = time ? ["-15m", "-1h", "-24h", "-7d"] : (known.values[field] || []).map(word);
    const all = { field: known.fields, op: time ? compare.time : compare.text, open: ["("], value: values, values, next: [",", ")"], and: ["and"] }[state];
    const begun = partial.toLowerCase().replace(/^["']/, "");
    return { partial, all: all.filter((o) => o.toLowerCase().replace(/^"/, "").startsWith(begun) && o !== partial).slice(0, 12) };
  }
  function complete(field) {
    field.removeAttribute("list"); // the datalist is for browsers without JavaScript
    if (field.getAttribute("role")) return;
    const box = add(field.parentElement, "ul", { id: "offers", className: "offers", hidden: true });
    const set = (to, attributes) => { for (const [name, value] of Object.entries(attributes)) to.setAttribute(name, value); };
    set(box, { role: "listbox", "aria-label": "Completions", "data-script": "" });
    set(field, { role: "combobox", "aria-autocomplete": "list", "aria-controls": "offers", "aria-expanded": "false" });
    let chosen = -1, partial = "";
    const mark = (i) => {
      chosen = i;
      [...box.children].forEach((o, n) => o.setAttribute("aria-selected", n === i));
      if (i < 0) field.removeAttribute("aria-activedescendant"); else { field.setAttribute("aria-activedescendant", box.children[i].id); box.children[i].scrollIntoView({ block: "nearest" }); }
    };
    const close = () => { box.hidden = true; field.setAttribute("aria-expanded", "false"); mark(-1); };
    const show = () => {
      const at = field.selectionStart, o = offers(field.value.slice(0, at), JSON.parse(field.dataset.complete));
      partial = o.partial;
      box.replaceChildren();
      o.all.forEach((text, i) => set(add(box, "li", { textContent: text, id: "offer-" + i }), { role: "option", "aria-selected": "false" }));
      if (!o.all.length) { close(); return; }
      box.hidden = false;
      field.setAttribute("aria-expanded", "true");
      mark(-1);
    };
    const take = (i) => {
      const at = field.selectionStart, front = field.value.slice(0, at - partial.length), back = field.value.slice(at);
      const text = (front && !/[\s(]$/.test(front) ? front + " " : front) + box.children[i].textContent + (/\($/.test(box.children[i].textContent) ? "" : " ");
      field.value = text + back.trimStart();
      field.setSelectionRange(text.length, text.length);
      show();
    };
    field.addEventListener("input", show);
    field.addEventListener("click", show);
    field.addEventListener("blur", close);
    box.addEventListener("pointerdown", (e) => { const i = [...box.children].indexOf(e.target); if (i >= 0) { e.preventDefault(); take(i); } });
    field.addEventListener("keydown", (e) => {
      const n = box.children.length;
      if (box.hidden) { if (e.key === "ArrowDown") { e.preventDefault(); show(); } return; }
      if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); mark(e.key === "ArrowDown" ? (chosen + 1) % n : (Math.max(chosen, 0) + n - 1) % n); }
      else if (e.key === "Enter" && chosen >= 0 || e.key === "Tab" && partial && !e.shiftKey) { e.preventDefault(); take(Math.max(chosen, 0)); }
      else if (e.key === "Escape") { e.preventDefault(); e.stopPropagation(); close(); }
    });
  }

  // ---- Named views that were opened: their addresses are stored in this browser. ----
  const kept = () => { try { return JSON.parse(localStorage.getItem("pawl.views")) || {}; } catch { return {}; } };
  function views() {
    const box = $("#views");
    if (!box) return;
    const own = all("a:not([data-script])", box).map((a) => a.textContent), saved = kept();
    const name = new URLSearchParams(location.search).get("view"), here = location.pathname + location.search.replace(/&?cursor=[^&]*/, "");
    const keep = () => { try { localStorage.setItem("pawl.views", JSON.stringify(saved)); } catch { /* it is full, or off */ } };
    if (name && !own.includes(name) && saved[name] !== here && !box.dataset.dropped) { saved[name] = here; keep(); }
    for (const old of all("[data-script]", box)) old.remove();
    for (const [title, href] of Object.entries(saved).slice(-20)) {
      if (own.includes(title) || !/^\/instances\?/.test(href)) continue;
      const a = document.createElement("a"), drop = document.createElement("button");
      Object.assign(a, { textContent: title, href }).dataset.script = "";
      if (title === name) a.setAttribute("aria-current", "true");
      Object.assign(drop, { type: "button", className: "plain", textContent: "×" }).dataset.script = "";
      drop.setAttribute("aria-label", "Remove the view " + title);
      drop.addEventListener("click", () => { delete saved[title]; keep(); box.dataset.dropped = "yes"; views(); });
      box.insertBefore(a, $("details", box));
      box.insertBefore(drop, $("details", box));
    }
  }

  // ---- Selection ----
  const boxes = () => all('td.pick input[type="checkbox"]');
  function picked() {
    const label = $("#picked"), whole = $('.bulk input[name="all"]');
    if (label) label.textContent = whole.checked ? "Selected: all" : `Selected: ${boxes().filter((b) => b.checked).length}`;
  }
  addEventListener("change", (e) => { if (e.target.matches(".pick input, .bulk input")) picked(); });
  addEventListener("pawl-changed", picked);

  // ---- Keyboard ----
  const typing = (e) => e.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  const row = (by) => {
    const links = all("main td.id a"), i = links.indexOf(document.activeElement);
    if (links.length) links[i < 0 ? 0 : Math.min(links.length - 1, Math.max(0, i + by))].focus();
  };
  const keys = {
    x: () => { const b = document.activeElement.closest("tr")?.querySelector(".pick input"); if (b) { b.checked = !b.checked; picked(); } },
    "?": help, r: () => refresh(), j: () => row(1), k: () => row(-1),
    "/": () => { const f = $("[data-focus]") || $("#lanes"); if (f) f.select(); },
    "+": () => zoomBy(.5), "-": () => zoomBy(2), 0: () => { zoom = whole(); timeline(); }, "[": () => pan(-.5), "]": () => pan(.5),
  };
  // help shows the page of keys in a dialog.
  async function help() {
    const open = $("dialog");
    if (open) { open.close(); return; }
    const box = add(document.body, "dialog", { className: "panel" });
    box.setAttribute("aria-label", "Keys");
    box.addEventListener("close", () => box.remove());
    box.addEventListener("click", (e) => { if (e.target === box) box.close(); });
    try {
      const shown = document.createElement("div");
      shown.innerHTML = await (await fetch("/keys", { headers: { "Pawl-Part": "main" } })).text();
      box.append($("table", shown) || "");
    } catch { box.append("Not reached"); }
    if (box.isConnected && !box.open) box.showModal();
  }
  $("#keys")?.addEventListener("click", (e) => { e.preventDefault(); help(); });
  let go = -Infinity; // when g was pressed
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest === undefined) return;
    if (typing(e)) { if (e.key === "Escape") e.target.blur(); return; }
    if (performance.now() - go < 1500) {
      go = -Infinity;
      const link = $(`nav [data-key="${CSS.escape(e.key)}"]`);
      if (link) { e.preventDefault(); link.click(); }
    } else if (e.key === "g") go = performance.now();
    else if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
  });
  for (const area of all("textarea[data-json]")) {
    area.addEventListener("input", () => {
      let wrong = "";
      if (area.value.trim()) { try { JSON.parse(area.value); } catch (e) { wrong = `Not JSON: ${e.message}`; } }
      area.setCustomValidity(wrong);
    });
  }
  const current = $("nav [aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - 60; // on a phone the navigation is one row
  decorate();
  connect();
  awaitRest();
})();
