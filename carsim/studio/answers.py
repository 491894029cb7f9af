"""Answers to what happens on the page, as properties of its parts: ``ID.PROPERTY`` -> value.

They are pure functions of what the page holds, so that any process can give them. Parts that are
not named keep what they show.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dash import html

from carsim.base.errors import InputError
from carsim.design.document import design_yaml
from carsim.explore.expression import Expression
from carsim.explore.target import SAY, Wanted, search_target
from carsim.explore.tricks import tricks_of, tricks_table
from carsim.report.compare import RunComparison
from carsim.report.compare_words import changed_table, headline, spec_table
from carsim.report.explorer import cheapest_near, explorer, worth_table
from carsim.report.figures import Shown, shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.looks import look_of
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import layer_plot, record_layer, waits_table
from carsim.report.html import fragment, unbroken
from carsim.report.run_page import tile_changes, tiles
from carsim.report.run_tables import fit_table, held, limits_note, limits_table
from carsim.report.run_words import Section
from carsim.report.screen import facts
from carsim.report.stored_study import read_study
from carsim.report.target import target_sections
from carsim.studio import sweep, view
from carsim.studio.fields import FIELDS, MENUS, SLIDERS, number_or
from carsim.studio.page import KINDS, PLACES, SWEPT
from carsim.studio.point import SimulatedPoint, point_of
from carsim.studio.reach import Reach, through_the_gate
from carsim.studio.state import TabState
from carsim.workload.workload import Workload

Parts = dict[str, Any]
"""Properties of the page."""

CONTROLS = (*FIELDS, "set", "store", *SWEPT)
"""Controls below which a refusal is told."""

CHANGED = (
    *("url.search", "shown.data", "trouble.children", "store.value", "pinned.hidden"),
    *(f"{key}.value" for key in (*FIELDS, *SWEPT)),
    *(f"{key}-slider.value" for key in SLIDERS),
    *(f"of-{made}.hidden" for made in KINDS),
    *(f"{key}.options" for key in MENUS),
    *(f"{key}-error.children" for key in CONTROLS),
    *(f"{key}.children" for key in ("title", "tiles", "misfit", "limits", "answer", "command")),
    *(f"{key}.children" for key in ("breakdown-place", "roofline-place")),
)
"""Properties that answer at once."""

NONE = "none: decisions are assumed"

MOST_SPLITS = 500
"""Boxes that the proof of a search by target splits: the page answers in less than a minute."""


@dataclass(frozen=True)
class Answers:
    """Answers of a studio.

    Attributes:
        start: What an address without a design shows.
        reach: Files that may be read.
        command_of: The command that simulates a state in a terminal.
    """

    start: TabState
    reach: Reach
    command_of: Callable[[TabState], str]

    @through_the_gate
    def begin(self) -> None:
        """Simulate what is shown first, before anybody asks."""
        self._point(self.start)

    @through_the_gate
    def first(self, search: str) -> str:
        """HTML of an answer for as long as the page's scripts are being loaded.

        Args:
            search: The address.
        """
        point = self._point(self._state(search))
        plot = breakdown_plot(shown_policies({"": point.run}))
        looks = {part.name: look_of(part.name).css for part in plot.panels[0].series}
        return fragment(
            "first.html", title=_title(point), tiles=tiles(point.run), plot=plot, looks=looks
        )

    @through_the_gate
    def change(
        self,
        trigger: str | None,
        search: str | None,
        values: Mapping[str, Any],
        slid: Mapping[str, Any] | None,
        shown: str | None,
        there: str | None,
    ) -> Parts:
        """From any change to the new state, and to everything that follows from it.

        Args:
            trigger: Name of the part that has changed.
            search: The address.
            values: Texts of the controls.
            slid: Slider that was moved, and its stop.
            shown: State that is shown; None for none yet.
            there: Name of the first graph, if it is there already.
        """
        state = self._state(search)
        before = self._point(state)
        if shown is None or trigger in (None, "url"):
            return {} if state.query == shown else self._everything(state, before, shown, there)
        key, text = str(trigger), str(values.get(str(trigger)) or "").strip()
        if trigger == "slid" and slid is not None:
            key, stop = slid["key"], int(slid["value"])
            text = str(stop) if key in PLACES else FIELDS[key].options[stop]
        try:
            after = _after(state, before, key, text)
            if after.query == state.query:
                return {}
            return self._everything(after, self._point(after), shown, there)
        except InputError as error:
            return _refused(key, text, error)

    @through_the_gate
    def sweep(self, shown: str, there: str | None) -> Parts:
        """A figure over the values of one or two fields."""
        state = self._state(shown)
        if not state.over:
            return {"sweep-place.children": []}
        try:
            return view.drawn("sweep", sweep.swept(state, self.reach), there)
        except InputError as error:
            return {"sweep-place.children": view.alert([str(error.named())])}

    @through_the_gate
    def tricks(self, shown: str, clicks: int | None) -> Parts:
        """Every policy, and pairs of them, on the machine of the design."""
        if not clicks:
            return {}
        state = self._state(shown)
        work = Workload("trace", traces=(state.trace,)) if state.trace else state.work
        table = tricks_table(tricks_of(self._point(state).design, work))
        return {"tricks.children": view.table_of(table, "policies and pairs of them")}

    @through_the_gate
    def target(self, shown: str, text: str | None) -> Parts:
        """The machine that reaches a target at the least cost."""
        if not text:
            return {"machines.children": []}
        state = self._state(shown)
        model = FIELDS["model"].text(state, self._point(state).design)
        if not model:
            return {"target-error.children": f"the model of {state.design} has no preset"}
        try:
            wanted = Wanted(state.work, Expression(text, "target", SAY), model=model)
            found = target_sections(wanted, search_target(wanted, most_splits=MOST_SPLITS))
        except InputError as error:
            return {"target-error.children": str(error.named())}
        return {"machines.children": view.sections(found), "target-error.children": ""}

    @through_the_gate
    def timeline(self, shown: str, there: str | None) -> Parts:
        """One layer of one step."""
        state = self._state(shown)
        point = self._point(state)
        row = point.report.chosen
        steps, layers = row.simulation.plan.n_steps, point.design.model.body.n_layers
        step, layer = _chosen(state.step, steps), _chosen(state.layer, layers)
        shown_step = record_layer(point.report, step, layer)
        plot = replace(layer_plot(shown_step), misfit=not point.run.fits)
        waits = waits_table(shown_step)
        table = view.table_of(waits, "the longest waits") if waits.rows else []
        parts: Parts = {
            "step.max": steps - 1,
            "step.value": shown_step.step,
            "layer.max": layers - 1,
        }
        parts |= {"layer.value": shown_step.layer, "waits.children": table}
        return view.drawn("timeline", plot, there) | parts

    @through_the_gate
    def resolved(self, shown: str) -> Parts:
        """The design in full."""
        return {"yaml.children": design_yaml(self._point(self._state(shown)).design)}

    @through_the_gate
    def comparison(self, shown: str) -> Parts:
        """Pinned designs beside this one."""
        state = self._state(shown)
        point = self._point(state)
        parts: list[Any] = []
        for pinned in map(TabState.of_query, state.pins):
            comparison = RunComparison(self._point(pinned).run, point.run)
            what, changed = spec_table(comparison), changed_table(comparison)
            tables = view.table_of(what, "what differs"), view.table_of(changed, "figures of both")
            parts += [
                html.P(f"{pinned.title} (A), and this design (B): {headline(comparison)}"),
                html.Details([html.Summary("What differs, and figures that changed"), *tables]),
            ]
        return {"comparison.children": parts}

    @through_the_gate
    def front(self, shown: str, fronted: Sequence[str] | None, ticks: int | None) -> Parts:
        """The points of a sweep; they are read again if its store has changed.

        Args:
            shown: State that is shown.
            fronted: Name and edition of the store whose points are there; None without any.
            ticks: How often the page has looked for further points, which a sweep may add.
        """
        name = self._state(shown).store
        nothing: Parts = {"front-section.hidden": True, "explored.data": None}
        nothing |= {"fronted.data": None, "tick.disabled": True}
        if not name:
            return nothing if fronted else {}
        try:
            folder = self.reach.store(name)
            edition = [name, sweep.edition(folder)]
            if fronted == edition:
                return {}
            study = read_study(folder)
            document = explorer(study)
            table = view.table_of(worth_table(study), "what each axis is worth")
        except InputError as error:
            return nothing | {"store-error.children": str(error.named())}
        problem = "" if document else f"{name}: no point fits and meets the constraints yet"
        return {
            "front-section.hidden": document is None,
            "front-title.children": f"{study.name}: {study.outcome}",
            "explored.data": document,
            "worth.children": table if document else [],
            "near.children": cheapest_near(study) if document else "",
            "fronted.data": edition,
            "tick.disabled": not study.is_part,
            "store-error.children": problem,
        }

    @through_the_gate
    def open_point(self, shown: str, opened: Any) -> Parts:
        """The point of the sweep whose design was asked for."""
        if not opened:
            return {}
        state = self._state(shown)
        after = sweep.opened(state, self.reach.store(state.store), opened["point"])
        return {"url.search": after.query, "trouble.children": ""}

    def _state(self, search: str | None) -> TabState:
        """The state of an address; the one to start with where it says nothing."""
        if not search or search == "?":
            return self.start
        return TabState.of_query(search, self.start.design)

    def _point(self, state: TabState) -> SimulatedPoint:
        return point_of(state, self.reach)

    def _everything(
        self, state: TabState, point: SimulatedPoint, shown: str | None, there: str | None
    ) -> Parts:
        """All that follows from a state; results only where they are not shown yet."""
        parts: Parts = {"url.search": state.query, "shown.data": state.query}
        parts |= {"trouble.children": "", "store.value": state.store}
        parts |= {f"{key}.value": getattr(state, key) for key in SWEPT}
        parts |= {f"of-{made}.hidden": made != point.run.video.kind for made in KINDS}
        parts |= {f"{key}-error.children": "" for key in CONTROLS}
        for key, field in FIELDS.items():
            text = parts[f"{key}.value"] = field.text(state, point.design)
            if field.is_menu:
                parts[f"{key}.options"] = _options(field.options, text)
            elif field.choices:
                parts[f"{key}-slider.value"] = _nearest(field.options, text)
        seen = TabState.of_query(shown) if shown else None
        if seen is None or (seen.point, seen.pins) != (state.point, state.pins):
            parts |= self._results(state, point, there)
        return parts

    def _results(self, state: TabState, point: SimulatedPoint, there: str | None) -> Parts:
        run, design = point.run, point.design
        pins = map(TabState.of_query, state.pins)
        pinned = {f"pinned: {each.title}": self._point(each).run for each in pins}
        policies = shown_policies({"": run})
        policies += [Shown(name, other.own, other) for name, other in pinned.items()]
        misfits = [f"MISFIT: {run.design} does not fit {design.board.name}.", *run.misfits]
        misfits += [f"Cure: {cure}." for cure in point.report.fit.cures]
        limits: list[Section] = [
            ("What limits each phase", [limits_table(run), limits_note(run)]),
            ("What is full", [fit_table(run), *held(run)]),
        ]
        told = (f"{fact.label[0].upper() + fact.label[1:]}: {fact.text}." for fact in facts(run))
        said = (*told, *run.warnings)
        notes = [html.P(unbroken(text)) for text in run.notes]
        folded = [html.Details([html.Summary("Notes on the model"), *notes])] if notes else []
        changes = [tile_changes(run, other) for other in pinned.values()][-1:]
        return {
            "title.children": _title(point),
            "tiles.children": view.tiles_of(tiles(run), *changes),
            "misfit.children": "" if run.fits else view.alert(misfits),
            "limits.children": view.sections(limits),
            "answer.children": [*(html.P(unbroken(text)) for text in said), *folded],
            "command.children": self.command_of(state),
            "pinned.hidden": not state.pins,
            **view.drawn("breakdown", breakdown_plot(policies), there),
            **view.drawn("roofline", roofline_plot(policies), there),
        }


# -------------------------------------------------------------------- private


def _title(point: SimulatedPoint) -> str:
    return f"{point.run.design} on {point.design.board.name}: {point.run.own.policy}"


def _refused(key: str, text: str, error: InputError) -> Parts:
    """A refusal below its control, which keeps what was asked for."""
    told = str(error.named())
    if key not in CONTROLS:
        return {"trouble.children": view.alert([told])}
    told = told.removeprefix(f"{key}: ")  # the control stands for the parameter
    return {f"{key}-error.children": told} | ({f"{key}.value": text} if key in FIELDS else {})


def _after(state: TabState, before: SimulatedPoint, key: str, text: str) -> TabState:
    """The state after a control was used."""
    if key in FIELDS:
        return FIELDS[key].set(state, before.design, text)
    if key == "set":
        path, _, value = text.partition("=")
        return state.with_change(path.strip(), value.strip()) if text else state
    if key in ("store", *PLACES, *SWEPT):
        return state.with_option(key, text)
    if key == "pin":
        return replace(state, pins=tuple(dict.fromkeys((*state.pins, state.point.query))))
    return replace(state, pins=()) if key == "unpin" else state


def _chosen(text: str, count: int) -> int | None:
    """A number that an address gives, at most the last of so many; None if it gives none."""
    return min(int(text), count - 1) if text.isdecimal() else None


def _nearest(options: list[str], text: str) -> int:
    """The stop of a slider that is nearest to a value.

    >>> _nearest(["100", "200", "300"], "287.8"), _nearest(["captured", "0.5"], "captured")
    (2, 0)
    """
    if text in options:
        return options.index(text)
    value = number_or(text, 0.0)
    return min(range(len(options)), key=lambda at: abs(number_or(options[at], 0.0) - value))


def _options(options: list[str], text: str) -> list[dict[str, str]]:
    """The entries of a menu, the present one among them."""
    named = options if text in options else [text, *options]
    return [{"label": each or NONE, "value": each} for each in named]
