// Elements. Text of guests and of the configuration reaches the page by textContent and by attributes of fixed names
// only; the policy of the page forbids markup from strings.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children, which are elements or text. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for an element of SVG. */
export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
  node.append(...children);
  return node;
}

/** Sets an attribute if it has changed; removes it if the value is null or false. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

/** Sets the text of an element if it has changed, so that an unchanged page is not laid out again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function find(id) {
  return document.getElementById(id);
}

/** Gives `parent` exactly these children in this order. Elements that stay keep the focus. */
export function arrange(parent, children) {
  const focused = document.activeElement;
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
  if (document.activeElement !== focused && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** Elements by key: made once, updated at each call, and removed with their key. */
export function keyed(make) {
  let known = new Map();
  return (items, key) => {
    const next = new Map(items.map((item) => [key(item), known.get(key(item)) ?? make(item)]));
    known = next;
    return [...next.values()];
  };
}
