// Fetches what is in <main> again, and changes only what differs: focus, scrolling, selections and what is open stay.
// Pages work without it.
"use strict";
(() => {
  const main = document.getElementById("main");
  const stale = document.getElementById("stale");
  const pause = Number(main.dataset.refresh) * 1000;
  let timer;
  let late;
  let since = new Date();
  let problem = "";
  let failures = 0;
  let asked = 0;

  // By what a row or a section is recognized: its id, or where its first link goes.
  const key = (node) => {
    if (node.id) return node.id;
    return /^(TR|LI)$/.test(node.nodeName) ? node.querySelector("a")?.getAttribute("href") ?? "" : "";
  };

  const morph = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    // Who types goes on.
    if (old === document.activeElement && /^(INPUT|SELECT)$/.test(old.nodeName)) return;
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    morphChildren(old, fresh);
  };

  const morphChildren = (old, fresh) => {
    let at = old.firstChild;
    // The next one of that key: several may have it.
    const find = (name) => {
      let node = at;
      while (node && key(node) !== name) node = node.nextSibling;
      return node;
    };
    const drop = () => {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    };
    for (const child of [...fresh.childNodes]) {
      const name = key(child);
      const same = name ? find(name) : at && !key(at) ? at : null;
      if (same?.nodeName !== child.nodeName) {
        old.insertBefore(child, at);
        continue;
      }
      // What stands before it is not there any more. Nothing is moved: that would lose the focus.
      while (at !== same) drop();
      at = at.nextSibling;
      morph(same, child);
    }
    while (at) drop();
  };

  // In minutes: a screen reader says each change.
  const say = () => {
    const minutes = Math.floor((new Date() - since) / 60000);
    const age = minutes < 1 ? "less than a minute" : `${minutes} min`;
    const words = problem && `Not refreshed for ${age}: ${problem}. What is shown is old.`;
    if (stale.textContent !== words) stale.textContent = words;
  };

  const refresh = async () => {
    const own = (asked += 1);
    clearTimeout(late);
    // It is waited for: a slow server's answer may still come.
    late = setTimeout(() => {
      problem ||= "dblock web does not answer (nothing within 12 s)";
      say();
    }, 12000);
    let isKnown = true;
    try {
      const answer = await fetch(location.pathname + location.search, {
        headers: { "x-dblock-main": "1" },
        cache: "no-store",
        redirect: "error",
        // Longer than a page waits for two slow answers.
        signal: AbortSignal.timeout(40000),
      });
      const isOwn = answer.headers.has("x-dblock-main");
      // The login is over.
      isKnown = !(isOwn && answer.status === 403);
      // What the page is about may be gone: this page says so.
      const isGone = isOwn && answer.status === 404;
      if (!answer.ok && !isGone) throw new Error(`the answer was ${answer.status}`);
      const text = await answer.text();
      // It was asked again since.
      if (own !== asked) return;
      const fresh = new DOMParser().parseFromString(text, "text/html");
      const isFocused = main.contains(document.activeElement);
      document.title = fresh.title;
      morphChildren(main, fresh.body);
      if (isFocused && document.activeElement === document.body) main.focus({ preventScroll: true });
      since = new Date();
      failures = 0;
      problem = "";
    } catch (error) {
      if (own !== asked) return;
      failures += 1;
      problem = isKnown
        ? `dblock web does not answer (${error.message})`
        : "this browser is not logged in any more; load this page again to log in";
    }
    clearTimeout(late);
    say();
    wait();
  };

  const wait = () => {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(refresh, pause * Math.min(failures + 1, 6));
  };

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) refresh();
  });

  document.addEventListener("keydown", (event) => {
    const filter = document.getElementById("filter");
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName);
    if (event.key !== "/" || !filter || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    filter.focus();
    filter.select();
  });

  // What is old gets older also while nothing answers.
  setInterval(say, 5000);
  wait();
})();
