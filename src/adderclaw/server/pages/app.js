// The one script of the pages: forms sent as JSON, streams that change the page, the keyboard, the theme.
"use strict";
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const policy = window.trustedTypes?.createPolicy("adderclaw", { createHTML: (html) => html });
  const trusted = (html) => policy?.createHTML(html) ?? html;
  // Only what this server drew comes here: its pages, and the fragments of its streams.
  const parsed = (html) => new DOMParser().parseFromString(trusted(html), "text/html");
  const show = (id, on) => { const found = document.getElementById(id); if (found) found.hidden = !on; };

  // ---------------------------------------------------------------- requests

  const HEADERS = { "X-AdderClaw": "1", Accept: "application/json" };

  async function request(method, path, body) {
    const given = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = body === undefined ? HEADERS : { ...HEADERS, "Content-Type": "application/json" };
    let answer;
    try {
      answer = await fetch(path, { method, headers, credentials: "same-origin", redirect: "manual", ...given });
    } catch {
      throw new Error("The server does not answer. Nothing was sent; try again.");
    }
    if (answer.status === 401 || answer.type === "opaqueredirect") {
      loggedOut();
      throw new Error("Your login has expired. What you typed is kept; log in again.");
    }
    const text = await answer.text();
    if (!answer.ok) throw new Error(reason(text) || `The server refused it (${answer.status}).`);
    return text;
  }

  function reason(text) {
    try {
      const found = JSON.parse(text);
      const error = found.error ?? found;
      return [error.message ?? error.detail ?? "", error.fix ?? ""].filter(Boolean).join(" ");
    } catch {
      return "";
    }
  }

  function loggedOut() {
    const link = $("[data-login]");
    if (link) link.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
    show("logged-out", true);
    show("away", false);
  }

  // ---------------------------------------------------------------- forms

  const KINDS = {
    bool: (value) => value === "true" || value === "on",
    number: (value) => (value === "" ? null : Number(value)),
    lines: (value) => value.split("\n").map((line) => line.trim()).filter(Boolean),
    json: (value) => (value.trim() ? JSON.parse(value) : null),
  };

  function fieldsOf(form, submitter) {
    const body = {};
    const put = (name, value) => {
      // "replies/Which one?" is replies["Which one?"]
      const at = name.indexOf("/");
      if (at < 0) body[name] = value;
      else (body[name.slice(0, at)] ??= Object.create(null))[name.slice(at + 1)] = value;
    };
    for (const field of form.elements) {
      if (!field.name || field.disabled || field.tagName === "BUTTON") continue;
      if (field.type === "radio" && !field.checked) continue;
      if (field.type === "checkbox") {
        if (field.dataset.join === undefined) put(field.name, field.checked);
        continue;
      }
      if (field.value === "" && field.dataset.optional !== undefined) continue;
      put(field.name, (KINDS[field.dataset.type] ?? String)(field.value));
    }
    const joined = {};
    for (const box of all("input[data-join]:checked", form)) (joined[box.name] ??= []).push(box.value);
    for (const [name, values] of Object.entries(joined)) put(name, values.join(", "));
    for (const own of all("[data-instead]", form)) if (own.value.trim()) put(own.dataset.instead, own.value.trim());
    if (submitter?.name) put(submitter.name, (KINDS[submitter.dataset.type] ?? String)(submitter.value));
    return body;
  }

  async function send(form, submitter) {
    const error = $("[data-error]", form), done = $("[data-went]", form);
    const question = submitter?.dataset.confirm ?? form.dataset.confirm;
    if (question && !(await confirmed(question))) return;
    if (form.ariaBusy === "true") return;
    const told = (node, text) => { if (node) node.textContent = text; };
    told(error, ""); told(done, "");
    form.ariaBusy = "true";
    if (submitter) submitter.disabled = true;
    try {
      const path = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
      const method = (form.dataset.method ?? form.method).toUpperCase();
      const text = await request(method, path, method === "GET" || method === "DELETE" ? undefined : fieldsOf(form, submitter));
      for (const area of all("textarea[data-clear]", form)) area.value = "";
      after(form.dataset.then ?? "stay", text ? JSON.parse(text) : {}, done, form);
      forget(form);
    } catch (failed) {
      told(error, failed instanceof SyntaxError ? `This is no JSON: ${failed.message}` : failed.message);
    } finally {
      form.ariaBusy = null;
      if (submitter) submitter.disabled = false;
    }
  }

  function after(then, answer, done, form) {
    if (answer?.files?.refused) throw new Error("Nothing was changed: others changed these files since. Look at them first.");
    if (then === "reload") location.reload();
    else if (then.startsWith("/")) {
      location.assign(then.replace(/\{(\w+)\}/g, (_all, name) => encodeURIComponent(answer?.[name] ?? "")));
    } else {
      if (done) done.textContent = form.dataset.done ?? "";
      form.closest("dialog")?.close();
    }
  }

  // A form whose answer is a page: the element of that page which `data-fill` names is put into this one.
  async function fill(form) {
    const posts = form.method === "post";
    const query = posts ? "" : `?${new URLSearchParams(new FormData(form))}`;
    const path = form.getAttribute("action") + query;
    const error = $("[data-error]", form), button = $("[type=submit]", form);
    if (button) button.ariaBusy = "true";
    try {
      const answer = posts ? await request("POST", path, fieldsOf(form)) : await request("GET", path);
      const found = parsed(answer).getElementById(form.dataset.fill);
      const here = document.getElementById(form.dataset.fill);
      if (found && here) here.replaceWith(found);
      if (!posts) history.replaceState(null, "", path);
      if (error) error.textContent = "";
      arrived();
    } catch (failed) {
      if (error) error.textContent = failed.message;
    } finally {
      if (button) button.ariaBusy = null;
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.fill !== undefined) { event.preventDefault(); fill(form); }
    else if (form.dataset.send !== undefined) { event.preventDefault(); send(form, event.submitter); }
  });

  // ---------------------------------------------------------------- what was typed stays

  const draftKey = (field) => `draft:${location.pathname}:${field.form?.getAttribute("action") ?? ""}:${field.name}`;
  const drafts = () => all("textarea[name], input[type=text][name], input[type=search][name]").filter((field) => field.form?.dataset.send !== undefined);
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (drafts().includes(field)) sessionStorage.setItem(draftKey(field), field.value);
  });
  function forget(form) {
    for (const field of form.elements) if (field.name) sessionStorage.removeItem(draftKey(field));
  }
  function restore() {
    for (const field of drafts()) {
      const kept = sessionStorage.getItem(draftKey(field));
      if (kept && !field.value) field.value = kept;
    }
  }

  // ---------------------------------------------------------------- dialogs

  function confirmed(question) {
    const dialog = $("#confirm");
    $("#confirm-text").textContent = question;
    return new Promise((resolve) => {
      const yes = $("#confirm-yes");
      const end = (answer) => { yes.onclick = null; dialog.onclose = null; dialog.close(); resolve(answer); };
      yes.onclick = () => end(true);
      dialog.onclose = () => end(false);
      dialog.showModal();
    });
  }

  const open = (id) => { const dialog = document.getElementById(id); if (dialog && !dialog.open) dialog.showModal(); };

  const THEMES = ["", "light", "dark"];
  function theme() {
    const root = document.documentElement;
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    document.cookie = `theme=${next}; path=/; max-age=${next ? 31536000 : 0}; samesite=strict`;
    $("[data-do=theme]").textContent = themeName();
  }
  const themeName = () => ({ light: "Light", dark: "Dark" })[document.documentElement.dataset.theme] ?? "Theme";

  const ACTS = {
    theme,
    help: () => open("help"),
    stop: () => open("stop"),
    close: (target) => target.closest("dialog")?.close(),
    "keys-on": (target) => localStorage.setItem("keys", target.checked ? "on" : "off"),
    bottom: () => toBottom(),
  };
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-do]");
    if (target) ACTS[target.dataset.do]?.(target);
  });

  // ---------------------------------------------------------------- keyboard

  const isTyping = (target) => target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
  let waitsForPlace = 0;
  document.addEventListener("keydown", (event) => {
    const form = event.target.form;
    if (event.key === "Enter" && form?.dataset.deliberate !== undefined && event.target.tagName === "INPUT") {
      event.preventDefault();  // a yes is a button that was pressed, never the end of a line
    } else if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && form?.dataset.send !== undefined) {
      event.preventDefault();
      form.requestSubmit([...form.elements].find((one) => one.type === "submit"));
    } else if ((event.ctrlKey || event.metaKey) && event.key === ".") {
      event.preventDefault();
      $("[data-interrupt]:not([hidden])")?.click();
    } else if (!event.ctrlKey && !event.metaKey && !event.altKey) letter(event);
  });
  function letter(event) {
    if (isTyping(event.target) || $("dialog[open]") || localStorage.getItem("keys") === "off") return;
    const place = Date.now() < waitsForPlace && $(`[data-key="${CSS.escape(event.key)}"]`);
    waitsForPlace = 0;
    if (place) place.click();
    else if (event.key === "g") waitsForPlace = Date.now() + 1500;
    else if (event.key === "?") open("help");
    else if (event.key === "!") open("stop");
    else if (event.key === "/") $("[data-first]")?.focus();
    else return;
    event.preventDefault();
  }

  // ---------------------------------------------------------------- streams

  const near = () => document.documentElement.scrollHeight - window.scrollY - window.innerHeight < 160;
  function toBottom() { window.scrollTo(0, document.documentElement.scrollHeight); show("below", false); }
  function changing(change) {
    const stays = $(".transcript") && near();
    change();
    if (stays) toBottom();
    else if ($(".transcript")) show("below", true);
  }

  // {id, html, into}: the element of this id is drawn anew, or added at the end of `into`; without html it goes away.
  function put({ id, html, into }) {
    const here = document.getElementById(id);
    if (!html) { here?.remove(); return; }
    const made = parsed(html).body.firstElementChild;
    if (!made) return;
    if (here) {
      if (here.outerHTML === made.outerHTML) return;
      keep(here, made);
      here.replaceWith(made);
    } else {
      const place = document.getElementById(into);
      place?.append(made);
    }
  }
  const named = (one) => (one.id ? `#${CSS.escape(one.id)}` : ["name", "value", "href"]
    .filter((key) => one.hasAttribute(key))
    .reduce((said, key) => `${said}[${key}="${CSS.escape(one.getAttribute(key))}"]`, one.tagName.toLowerCase()));
  // What a person unfolded, typed, ticked or stands on is not taken from them by a change.
  function keep(here, made) {
    const before = all("details", here), now = all("details", made);
    now.forEach((one, at) => { if (before[at]?.dataset.touched) { one.open = before[at].open; one.dataset.touched = "1"; } });
    for (const field of all("textarea[name], input[type=text][name]", here)) {
      const isSame = (one) => one.name === field.name && one.form?.getAttribute("action") === field.form?.getAttribute("action");
      const same = all("textarea[name], input[type=text][name]", made).find(isSame);
      if (same) same.value = field.value;
    }
    for (const box of all("input[type=checkbox]:checked, input[type=radio]:checked", here)) {
      const same = $(named(box), made);
      if (same) same.checked = true;
    }
    const focused = here.contains(document.activeElement) ? document.activeElement : null;
    const again = focused && named(focused);
    if (again) queueMicrotask(() => $(again, made)?.focus());
  }
  document.addEventListener("toggle", (event) => { if (event.target.tagName === "DETAILS") event.target.dataset.touched = "1"; }, true);

  function text({ id, into, text: more }) {
    let here = document.getElementById(id);
    if (!here) {
      here = Object.assign(document.createElement("div"), { id, className: "item words assistant streaming" });
      document.getElementById(into)?.append(here);
    }
    here.append(more);
  }

  async function refresh(ids) {
    const page = parsed(await request("GET", location.pathname + location.search));
    const stream = $("[data-live]", page), here = $("[data-live]");
    if (!ids && stream && here) here.dataset.live = stream.dataset.live;
    for (const region of all("[data-region]")) {
      if (ids && !ids.includes(region.id)) continue;
      const found = page.getElementById(region.id);
      if (found && found.outerHTML !== region.outerHTML) { keep(region, found); region.replaceWith(found); }
    }
    arrived();
  }

  let source = null, wait = 1000, last = "";
  function follow() {
    const path = $("[data-live]")?.dataset.live;
    if (!path) return;
    source?.close();
    const url = new URL(path, location.href);
    if (last) url.searchParams.set("after", last);
    source = new EventSource(url);
    const on = (kind, act) => source.addEventListener(kind, (event) => {
      if (event.lastEventId) last = event.lastEventId;
      act(JSON.parse(event.data));
    });
    source.onopen = () => { wait = 1000; show("away", false); show("logged-out", false); };
    on("put", (given) => changing(() => { put(given); arrived(); }));
    on("text", (given) => changing(() => text(given)));
    on("reset", () => { source.close(); again(); });
    on("over", () => source.close());
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) { show("away", true); return; }  // it tries again by itself
      source.close();
      again();
    };
  }
  // The stream was refused: the login has ended, or the server is away. What happened meanwhile is asked for.
  async function again() {
    try {
      await refresh();
      show("logged-out", false);
      last = "";
      setTimeout(follow, 500);
    } catch {
      if ($("#logged-out")?.hidden !== false) show("away", true);
      wait = Math.min(wait * 2, 30000);
      setTimeout(again, wait);
    }
  }
  // A browser has six connections for one server: a page that nobody looks at lets go of its own after a while.
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.visibilityState === "hidden") hidden = setTimeout(() => source?.close(), 30000);
    else if (source?.readyState === EventSource.CLOSED) again();
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) again(); });
  window.addEventListener("online", () => { if (source?.readyState === EventSource.CLOSED) again(); });

  // A region that is asked for again every few seconds, while somebody looks at it.
  function refreshing() {
    for (const region of all("[data-refresh]")) {
      if (region.dataset.timed) continue;
      region.dataset.timed = "1";
      const id = region.id;
      const timer = setInterval(() => {
        if (!document.getElementById(id)?.dataset.refresh) clearInterval(timer);
        else if (document.visibilityState === "visible") refresh([id]).catch(() => {});
      }, 1000 * Number(region.dataset.refresh));
    }
  }

  // ---------------------------------------------------------------- what came into the page

  function times() {
    for (const one of all("time[data-when]")) one.title = new Date(one.dateTime).toLocaleString();
  }
  function arrived() { times(); }

  // `adderclaw dashboard` hands the login over behind the #, which no request and no history keeps.
  function loginByAddress() {
    const token = $("#token");
    if (!token || !location.hash.startsWith("#adk_")) return;
    token.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname + location.search);
    token.form.submit();
  }
  window.addEventListener("hashchange", loginByAddress);

  document.addEventListener("DOMContentLoaded", () => {
    loginByAddress();
    const keys = $("#keys-on");
    if (keys) keys.checked = localStorage.getItem("keys") !== "off";
    const button = $("[data-do=theme]");
    if (button) button.textContent = themeName();
    restore();
    arrived();
    refreshing();
    follow();
    if ($(".transcript")) toBottom();
    $("#below")?.addEventListener("click", toBottom);
    window.addEventListener("scroll", () => { if (near()) show("below", false); }, { passive: true });
  });
})();
