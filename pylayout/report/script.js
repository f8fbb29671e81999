// Tabs, the timeline's zoom, and the card under the pointer. Without scripts every panel is shown.
for (const tabs of document.querySelectorAll(".tabs")) {
  const buttons = [...tabs.querySelectorAll("button")];
  const select = (chosen) => buttons.forEach((button) => {
    button.setAttribute("aria-selected", button === chosen);
    document.getElementById(button.dataset.panel).hidden = button !== chosen;
  });
  buttons.forEach((button) => button.addEventListener("click", () => select(button)));
  select(buttons.find((button) => button.hasAttribute("data-first")) || buttons[0]);
}
for (const slider of document.querySelectorAll(".zoom input")) {
  const view = document.getElementById(slider.dataset.timeline);
  const canvas = view.firstElementChild;
  slider.addEventListener("input", () => {
    const middle = (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth;
    canvas.style.width = 100 * 2 ** slider.value + "%";
    view.scrollLeft = middle * view.scrollWidth - view.clientWidth / 2;
  });
}
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
document.addEventListener("mousemove", (event) => {
  const marked = event.target.closest("[data-tip]");
  tip.hidden = !marked;
  if (!marked) return;
  tip.textContent = marked.dataset.tip;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.min(event.clientX + 14, innerWidth - width - 8) + "px";
  tip.style.top = (event.clientY + 18 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 18) + "px";
});
