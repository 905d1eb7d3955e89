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

// Children with an id are matched by it, others by their position.
function children(old, fresh) {
  const known = new Map();
  for (const child of old.children) if (child.id) known.set(child.id, child);
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = child.id ? known.get(child.id) : undefined;
    if (same) {
      known.delete(child.id);
      if (same === next) next = next.nextSibling;
      else old.insertBefore(same, next);
      morph(same, child);
    } else if (next && !next.id && !child.id) {
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

function countDown() {
  for (const time of document.querySelectorAll('time[data-until]')) {
    const seconds = (Number(time.dataset.until) - Date.now()) / 1000;
    const text = seconds > 0 ? `in ${span(Math.ceil(seconds))}` : `${span(Math.floor(-seconds))} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
}

function follow() {
  const query = new URLSearchParams({ path: location.pathname, query: location.search.slice(1) });
  const source = new EventSource(`/stream?${query}`);
  const banner = document.getElementById('connection');
  source.onopen = () => {
    banner.hidden = true;
  };
  source.onmessage = (message) => {
    for (const [id, html] of Object.entries(JSON.parse(message.data))) put(id, html);
    countDown();
  };
  source.onerror = () => {
    banner.textContent = 'The connection is lost: what you see is old. Trying again…';
    banner.hidden = false;
    // If the response is an error, for example after a restart of the server, the browser doesn't reconnect by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
  addEventListener('pagehide', () => source.close());
}

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

addEventListener('keydown', (event) => {
  const isTyping = event.target.closest?.('input, textarea, select');
  const field = document.querySelector("[data-focus='/']");
  if (event.key === '/' && field && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    field.focus();
  }
});

if (document.querySelector('#parts[data-live]')) follow();
for (const form of document.querySelectorAll('form[data-live]')) slide(form);
setInterval(countDown, 1000);
countDown();
