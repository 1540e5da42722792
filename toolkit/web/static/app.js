// What makes the pages live: they work without it. Regions marked `data-live-part` are fetched anew when the server
// says that there is something to see, and those marked `data-arrives` are hidden until there is something in them;
// everything else is small comfort.
const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// --- live parts

const MIN_GAP_MS = 1500;
let source = null, isFetching = false, isWanted = false, fetchedAt = 0, timer = null, silence = null;

function connect() {
  const path = document.body.dataset.live;
  if (!path || source || document.hidden) return;
  source = new EventSource(log ? `${path}?job=${encodeURIComponent(log.dataset.job)}&at=${encodeURIComponent(log.dataset.cursor)}` : path);
  source.addEventListener("tick", (event) => ticked(JSON.parse(event.data)));
  source.addEventListener("log", (event) => { remember(event); written(JSON.parse(event.data)); });
  source.addEventListener("note", (event) => { const note = $("#no-log"); note.textContent = JSON.parse(event.data); note.hidden = !note.textContent; });
  source.addEventListener("bye", () => location.reload());
  source.onopen = () => clearTimeout(silence);
  source.onerror = () => {
    clearTimeout(silence);
    silence = setTimeout(() => away("This page does not hear from crawlctl web any more. It tries again by itself."), 3000);
    if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(connect, 15000); }
  };
}

function disconnect() { source?.close(); source = null; clearTimeout(silence); }

function remember(event) { log.dataset.cursor = event.lastEventId.slice(event.lastEventId.indexOf("~") + 1); }

document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => event.persisted && location.reload());

function ticked(tick) {
  away(tick.away && `The cluster cannot be asked: ${tick.away}. What you see is from before; it goes on by itself.`);
  for (const news of tick.news) toast(news);
  if (!tick.away) $("[data-retry]") ? location.reload() : refresh();
}

function away(text) {
  const place = $("#away");
  place.hidden = !text;
  if (place.textContent !== (text || "")) place.textContent = text || "";
}

async function refresh() {
  if (!$("[data-live-part]")) return;
  if (isFetching) { isWanted = true; return; }
  const left = fetchedAt + MIN_GAP_MS - Date.now();
  if (left > 0) { timer ??= setTimeout(() => { timer = null; refresh(); }, left); return; }
  isFetching = true;
  fetchedAt = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) location.reload();
    else if (answer.status === 404) location.reload();
    else if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* the stream says when the server is away */ } finally {
    isFetching = false;
    if (isWanted) { isWanted = false; refresh(); }
  }
}

function swap(fresh) {
  for (const part of all("[data-live-part]")) {
    const other = fresh.getElementById(part.id);
    if (!other || isBusy(part)) continue;
    const picked = new Set(all("input:checked", part).map((box) => box.value));
    if (part.innerHTML.trim() === other.innerHTML.trim()) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const offsets = all(".scroll", part).map((box) => box.scrollLeft);
    const folds = all("details:not(.ask)", part).map((fold) => fold.open);
    part.replaceChildren(...other.childNodes);
    all("details:not(.ask)", part).forEach((fold, at) => { fold.open = folds[at] ?? false; });
    all("input[type=checkbox]", part).forEach((box) => { box.checked = picked.has(box.value); });
    all(".scroll", part).forEach((box, at) => { box.scrollLeft = offsets[at] ?? 0; });
    if (focused) all("a", part).find((link) => link.getAttribute("href") === focused)?.focus();
    dress(part);
  }
  let hasArrived = false;
  for (const part of all("[data-arrives][hidden]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.hidden) continue;
    part.replaceWith(other);
    hasArrived = true;
  }
  document.title = fresh.title;
  replot ? replot(hasArrived) : plotted();
}

// Somebody presses or types there, or is being asked: it waits.
const isBusy = (part) => part.matches(":active") || $("details.ask[open]", part) || (part.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), select, textarea"));

function toast(news) {
  const box = document.createElement(news.link ? "a" : "div");
  if (news.link) box.href = news.link;
  box.className = "toast";
  box.textContent = `${news.kind}: ${news.told || news.subject}`;
  const place = $("#toasts");
  place.append(box);
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => box.remove(), 8000);
}

// --- a job's log

const MAX_LINES = 3000;
const log = $("#log[data-job]");

function written(lines) {
  $("#no-log").hidden = true;
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  for (const [mark, text] of lines) {
    const line = document.createElement("span");
    line.className = mark;
    line.textContent = text || " ";
    log.append(line);
  }
  while (log.children.length > MAX_LINES) log.firstElementChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

if (log) {
  log.scrollTop = log.scrollHeight;
  const level = $("#level");
  level?.addEventListener("change", () => {
    log.dataset.level = level.value;
    history.replaceState(null, "", level.value === "all" ? location.pathname : `?level=${level.value}`);
    log.scrollTop = log.scrollHeight;
  });
  $("#level-go")?.remove();
}

// --- plots, brought in when the page is there already

let replot = null;

async function plotted() {
  if (!$("[data-plot]")) return;
  const plots = await import(document.body.dataset.plots);
  replot = plots.draw;
  plots.draw(true);
}
requestAnimationFrame(() => setTimeout(plotted));

// --- comfort

function dress(root) {
  for (const button of all("[data-copy]", root)) button.hidden = !navigator.clipboard;
  for (const box of all("[data-all]", root)) box.hidden = false;
  for (const time of all("time[title$=UTC]", root)) time.title = `${time.title}\n${new Date(time.dateTime).toLocaleString()} here`;
  count();
}

function count() {
  const picked = all("input[form=picked]:checked").length;
  for (const place of all("[data-picked]")) place.textContent = picked ? `${picked} picked` : "";
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) { await navigator.clipboard.writeText(copy.dataset.copy); copy.classList.add("done"); setTimeout(() => copy.classList.remove("done"), 1500); }
  for (const asked of all("details.ask[open]")) if (!asked.contains(event.target)) asked.open = false;
});

document.addEventListener("change", (event) => {
  const name = event.target.dataset?.all;
  if (name) for (const box of all(`input[name="${name}"]`)) box.checked = event.target.checked;
  if (event.target.matches("[data-go]")) event.target.form.requestSubmit();
  count();
});

// An act may wait for a spider to obey: the button says that it was heard.
document.addEventListener("submit", (event) => {
  if (event.target.method === "post") setTimeout(() => { if (event.submitter) { event.submitter.disabled = true; event.submitter.textContent += " …"; } });
});

const theme = $("[data-theme-switch]");
if (theme) {
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
    replot?.(true);
  });
}

let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const asked of all("details.ask[open]")) asked.open = false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (isGoing) { isGoing = false; $(`nav [data-key="${CSS.escape(event.key)}"]`)?.click(); return; }
  if (event.key === "g") { isGoing = true; setTimeout(() => { isGoing = false; }, 1200); }
  if (event.key === "?") $("#keys")?.showModal();
  if (event.key === "/") {
    const field = $("input[type=search]");
    if (field) { event.preventDefault(); field.focus(); field.select(); } else location.href = "/jobs#search";
  }
});

dress(document);
connect();
