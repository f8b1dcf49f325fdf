// Comfort only: every page works without it.
"use strict";
(() => {
  const typing = (e) => e.target.closest("input, textarea, select, [contenteditable]");
  let go = false; // g was pressed
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
    const filter = document.querySelector("[data-focus]");
    if (go) {
      go = false;
      const link = document.querySelector(`nav [data-key="${CSS.escape(e.key)}"]`);
      if (link) { e.preventDefault(); link.click(); }
    } else if (e.key === "g") {
      go = true;
      setTimeout(() => { go = false; }, 1500);
    } else if (e.key === "r") {
      location.reload();
    } else if (e.key === "/" && filter) {
      e.preventDefault();
      filter.select();
    }
  });
  for (const t of document.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    if (!isNaN(at)) t.title = `${t.dateTime}\n${at.toLocaleString()} here`;
  }
  for (const code of document.querySelectorAll("code.cli")) {
    const b = document.createElement("button");
    b.type = "button";
    b.className = "copy";
    b.textContent = "Copy";
    b.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(code.firstChild.data); b.textContent = "Copied"; } catch { b.textContent = "Select and copy"; }
    });
    code.append(b);
  }
  for (const area of document.querySelectorAll("textarea[data-json]")) {
    area.addEventListener("input", () => {
      let wrong = "";
      if (area.value.trim()) { try { JSON.parse(area.value); } catch (e) { wrong = `Not JSON: ${e.message}`; } }
      area.setCustomValidity(wrong);
    });
  }
})();
