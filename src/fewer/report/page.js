(function () {
  "use strict";
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);
  document.querySelectorAll("svg.plot title").forEach(function (title) {
    title.parentNode.setAttribute("data-tip", title.textContent);
    title.remove();
  });
  function show(event) {
    var mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("data-tip");
    var left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 12) + "px";
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", function () { tip.hidden = true; }, true);

  function sort(head, index) {
    var body = head.closest("table").tBodies[0];
    var down = head.getAttribute("aria-sort") !== "descending";
    head.parentNode.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    Array.from(body.rows).sort(function (a, b) {
      var x = a.cells[index].dataset.order, y = b.cells[index].dataset.order;
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      var order = isNaN(x) || isNaN(y) ? y.localeCompare(x) : y - x;
      return down ? order : -order;
    }).forEach(function (row) { body.appendChild(row); });
  }
  document.querySelectorAll("table.data thead th").forEach(function (head) {
    var button = document.createElement("button");
    button.textContent = head.textContent;
    button.type = "button";
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () { sort(head, head.cellIndex); });
  });

  document.querySelectorAll("table.data").forEach(function (table) {
    if (table.tBodies[0].rows.length < 13) return;
    var field = document.createElement("input");
    field.type = "search";
    field.placeholder = "only rows with …";
    field.setAttribute("aria-label", "Only rows with this text");
    field.addEventListener("input", function () {
      var words = field.value.toLowerCase().split(/\s+/);
      Array.from(table.tBodies[0].rows).forEach(function (row) {
        var text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
      });
    });
    table.closest(".scroll").before(field);
  });
})();
