// Keeps a page current: replaces the parts that the server sends, and updates relative times.

// Changes `old` to equal `fresh`, but reuses its elements, so that focus, scroll position and open details are kept.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    const isOpen = name === 'open' && old.nodeName === 'DETAILS';
    if (!fresh.hasAttribute(name) && !isOpen) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  children(old, fresh);
}

// Children with an id are matched by it, others by their position, and all of them where rows change in place.
function children(old, fresh) {
  const known = new Map();
  const inPlace = old.closest('[data-in-place]') !== null;
  if (!inPlace) for (const child of old.children) if (child.id) known.set(child.id, child);
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = child.id ? known.get(child.id) : undefined;
    if (same) {
      known.delete(child.id);
      if (same === next) next = next.nextSibling;
      else old.insertBefore(same, next);
      morph(same, child);
    } else if (next && (inPlace || (!next.id && !child.id))) {
      const current = next;
      next = next.nextSibling;
      morph(current, child);
    } else {
      old.insertBefore(child, next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
  for (const gone of known.values()) gone.remove();
}

function parsed(html, name) {
  const element = document.createElement(name);
  element.innerHTML = html;
  return element;
}

function put(id, html) {
  const part = document.getElementById(id);
  if (part) children(part, parsed(html, 'section'));
}

// A span of time in its two largest units, in the server's format.
function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  const units = [
    [86400, 'd'],
    [3600, 'h'],
    [60, 'm'],
    [1, 's'],
  ];
  const at = units.findIndex(([unit]) => seconds >= unit);
  const [unit, name] = units[at];
  const [smaller, smallerName] = units[at + 1];
  const rest = Math.floor((seconds % unit) / smaller);
  const text = `${Math.floor(seconds / unit)} ${name}`;
  return rest > 0 ? `${text} ${rest} ${smallerName}` : text;
}

// The path of all pages: an account's are below one that nobody can guess.
const base = new URL('.', document.currentScript.src).pathname;
const path = () => `/${location.pathname.slice(base.length)}`;

const root = document.documentElement;
root.classList.add('js');

// Also keeps the title of the window, which may have a time in it.
function countDown() {
  for (const time of document.querySelectorAll('time[data-until]')) {
    const seconds = (Number(time.dataset.until) - Date.now()) / 1000;
    const past = time.dataset.past ?? `${span(Math.floor(Math.max(0, -seconds)))} ago`;
    const text = seconds > 0 ? `in ${span(Math.ceil(seconds))}` : past;
    if (time.textContent !== text) time.textContent = text;
  }
  const title = `${document.getElementById('title')?.textContent ?? document.title} · Comeback`;
  if (document.getElementById('title') && document.title !== title) document.title = title;
}

let source;
function follow() {
  source?.close();
  const query = new URLSearchParams({ path: path(), query: location.search.slice(1) });
  source = new EventSource(`${base}stream?${query}`);
  const mine = source;
  const banner = document.getElementById('connection');
  mine.onopen = () => {
    banner.hidden = true;
  };
  mine.onmessage = (message) => {
    for (const [id, html] of Object.entries(JSON.parse(message.data))) put(id, html);
    countDown();
  };
  mine.onerror = () => {
    banner.textContent = 'The connection is lost: what you see is old. Trying again…';
    banner.hidden = false;
    // If the response is an error, for example after a restart of the server, the browser doesn't reconnect by itself.
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => mine === source && follow(), 2000);
  };
}
addEventListener('pagehide', () => source?.close());

// Updates the part of a form while its sliders move.
function slide(form) {
  const part = form.dataset.live;
  let latest = 0;
  form.addEventListener('input', async () => {
    const mine = ++latest;
    for (const input of form.querySelectorAll('input[type=range]')) {
      const output = input.parentElement.querySelector('output');
      output.value = output.dataset.choices.split(' ')[Number(input.value)];
      input.setAttribute('aria-valuetext', output.value);
    }
    const query = new URLSearchParams(new FormData(form));
    history.replaceState(null, '', `${form.action}?${query}`);
    const answer = await fetch(`${form.action}/${part}?${query}`);
    if (answer.ok && mine === latest) put(part, await answer.text());
  });
}

// Applies a filter while somebody types or chooses: the stream sends the parts of the new address.
function filter(form) {
  let timer;
  const apply = () => {
    clearTimeout(timer);
    const given = [...new FormData(form)].filter(([, value]) => value);
    const query = new URLSearchParams(given).toString();
    history.replaceState(null, '', query ? `${location.pathname}?${query}` : location.pathname);
    follow();
  };
  form.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(apply, 150);
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    apply();
  });
}

// Shows the page that asks for confirmation in a dialog. Without this script, it is a page of its own.
async function ask(url, options) {
  let dialog = document.querySelector('dialog');
  if (!dialog) {
    dialog = document.body.appendChild(document.createElement('dialog'));
    dialog.setAttribute('aria-labelledby', 'asked');
  }
  // A plan may take long, because it reads the whole queue.
  const wait = document.createElement('h2');
  Object.assign(wait, { id: 'asked', textContent: 'One moment…' });
  if (!dialog.open) {
    dialog.replaceChildren(wait);
    if (!options || /confirm/.test(url)) dialog.showModal();
  }
  const answer = await fetch(url, options);
  // After an action, the server redirects. What was done is a line on every page.
  if (options && answer.redirected) {
    dialog.close();
    if (/^\/(dead\/|confirm)/.test(path())) location.assign(answer.url);
    return;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
  for (const common of fresh.querySelectorAll('main > section')) common.remove();
  if (fresh.querySelector('[aria-invalid]')) {
    dialog.close();
    const sections = document.querySelectorAll('main > section');
    document.querySelector('main').replaceChildren(...sections, ...fresh.querySelector('main').childNodes);
    document.querySelector('[aria-invalid]').focus();
    return;
  }
  dialog.replaceChildren(...fresh.querySelector('main').childNodes);
  const title = dialog.querySelector('h1');
  title.outerHTML = title.outerHTML.replace(/h1/g, 'h2').replace('id="title"', 'id="asked"');
  if (!dialog.open) dialog.showModal();
  dialog.querySelector('[autofocus]')?.focus();
}

addEventListener('click', (event) => {
  const { target } = event;
  const link = target.closest?.('a[data-ask]');
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    ask(link.href);
  }
  const copy = target.closest?.('[data-copy]');
  if (copy) {
    navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
    copy.textContent = 'Copied';
  }
  if (target.closest?.('dialog [data-close]')) {
    event.preventDefault();
    target.closest('dialog').close();
  }
});

addEventListener('change', ({ target }) => {
  if (target.closest('[data-choose]')) target.form.submit();
  if (!target.matches('[data-all]')) return;
  for (const box of document.querySelectorAll('tbody input[name=id]')) box.checked = target.checked;
});

addEventListener('submit', (event) => {
  const { target: form, submitter } = event;
  const fields = new URLSearchParams(new FormData(form, submitter));
  const inPlace = form.closest('dialog, #did, #outages, #lesson');
  if (form.matches('[data-ask]')) {
    event.preventDefault();
    ask(`${form.action}?${fields}`);
  } else if (inPlace || form.action.endsWith('/confirm')) {
    event.preventDefault();
    ask(form.action, { method: 'POST', body: fields });
  }
});

addEventListener('keydown', (event) => {
  const isTyping = event.target.closest?.('input, textarea, select');
  const field = document.querySelector("[data-focus='/']");
  if (event.key === '/' && field && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    field.focus();
  }
});

if (document.querySelector('[data-live]')) follow();
for (const form of document.querySelectorAll('form[data-live]')) slide(form);
for (const form of document.querySelectorAll('form[data-filter]')) filter(form);
setInterval(countDown, 1000);
countDown();
