"""The recorded steps as stacked areas, with a cursor; its own state is the stretch in sight."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.tui.chart.areas import Band, Layer, StackedAreas, render_areas
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.scale import AXIS_LIMITS, scale_for
from llmprof.tui.chart.ticks import nice_ceiling
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.roles import PHASE_ROLES
from llmprof.tui.memory.track import Track, TrackMoment

MEMORY_GUTTER = 7
TRACK_ZOOM = 2.0  # of a zoom
DEEPEST_US, DEEPEST_CHANGES = 20.0, 10.0

LETTERS = dict(zip(CATEGORIES, "PGOACTWI", strict=True))
_LASTING = ("parameters", "optimizer state", "workspace", "inputs and buffers")
ORDER = (*_LASTING, *(name for name in CATEGORIES if name not in _LASTING))  # from the bottom
LAYERS = tuple(Layer(name, f"on {name}", LETTERS[name]) for name in ORDER)
_PLACES = tuple(CATEGORIES.index(name) for name in ORDER)


class MemoryChart(Canvas):
    """Level by category over the recorded steps."""

    DEFAULT_CSS = """
    MemoryChart { height: 1fr; width: 1fr; }
    """

    class Moved(Message):
        """The cursor stands elsewhere."""

        def __init__(self, moment: TrackMoment | None) -> None:
            super().__init__()
            self.moment = moment

    def __init__(self) -> None:
        super().__init__(id="memory-chart")
        self.track: Track | None = None
        self.note = ""
        self.begin, self.end = 0.0, 1.0
        self.at = 0.0  # the cursor's position
        self._moments: list[TrackMoment] = []

    def show(self, track: Track | None, note: str) -> None:
        """Take a timeline; another one is shown whole, with the cursor on its peak."""
        if track is not self.track:
            self.track = track
            if track is not None:
                self.begin, self.end, self.at = 0.0, track.length, track.peak_x
        self.note = note
        self._changed()

    @property
    def columns(self) -> int:
        """Columns of the areas."""
        return self.size.width - MEMORY_GUTTER - 1

    @property
    def moment(self) -> TrackMoment | None:
        """What stands under the cursor."""
        return self.track.moment_at(self.at) if self.track is not None else None

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, names of phases, areas, axis."""
        look, track = self.look, self.track
        if track is None or self.columns < 8 or height < 5:
            return [heading(look, width, "Timeline"), [(look.text(self.note), "muted")]]
        if len(self._moments) != self.columns:
            self._look_up()
        highest = max(1, *track.totals)
        scale = scale_for("B", highest)
        limit = nice_ceiling(highest * 1.02 / scale.divisor, AXIS_LIMITS) * scale.divisor
        peak = self._column(track.peak_x) if self.begin <= track.peak_x <= self.end else None
        areas = StackedAreas(
            layers=LAYERS,
            columns=[[moment.levels[at] for at in _PLACES] for moment in self._moments],
            limit=limit,
            scale=scale,
            bands=self._bands(track),
            labels=self._labels(track),
            cursor=self._column(self.at),
            peak=peak,
            gutter=MEMORY_GUTTER,
            letters=self.colourless,
        )
        title = heading(look, width, "Timeline", f"{scale.unit} requested, {self.note}")
        return [title, *render_areas(areas, height - 1, look.chart)]

    def move(self, by: int) -> None:
        """Move the cursor by columns; at an edge the stretch moves along."""
        if self.track is None or not self._moments:
            return
        column = self._column(self.at) + by
        inside = min(self.columns - 1, max(0, column))
        if column != inside:
            span = self.end - self.begin
            self._stretch(self.begin + (column - inside) * span / self.columns, span)
            self._look_up()
        self.put(self._moments[inside].x)

    def put(self, at: float) -> None:
        """Put the cursor on a position, which comes into sight."""
        track = self.track
        if track is None:
            return
        self.at = min(max(0.0, at), track.length)
        if not self.begin <= self.at <= self.end:
            span = self.end - self.begin
            self._stretch(self.at - span / 2, span)
        self._changed()

    def to_phase(self, by: int) -> None:
        """Put the cursor on the highest level of the phase before or after."""
        track, here = self.track, self.moment
        if track is None or not track.spans:
            return
        spans = track.spans
        after = next((n for n, span in enumerate(spans) if span.start > self.at), len(spans))
        inside = here is not None and here.span is not None
        index = after - 1 + by if inside or by < 0 else after
        span = spans[index % len(spans)]
        self.put(track.highest(span))

    def zoom(self, closer: bool, around: float | None = None) -> None:
        """Show half or twice the stretch; a position, by default the cursor's, keeps its place."""
        track = self.track
        if track is None:
            return
        at, span = self.at if around is None else around, self.end - self.begin
        deepest = min(track.length, DEEPEST_US if track.by_time else DEEPEST_CHANGES)
        wanted = max(deepest, span / TRACK_ZOOM) if closer else min(track.length, span * TRACK_ZOOM)
        share = min(1.0, max(0.0, (at - self.begin) / span))
        self._stretch(at - share * wanted, wanted)
        self._changed()

    def whole(self) -> None:
        """Show all recorded steps."""
        if self.track is not None:
            self._stretch(0.0, self.track.length)
            self._changed()

    def on_resize(self) -> None:
        """Another size, other columns."""
        super().on_resize()
        self._changed()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Put the cursor where the button went down, and follow the pointer."""
        self.capture_mouse()
        self._point(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag the cursor."""
        if event.button:
            self._point(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let the pointer go."""
        self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Closer, around the pointer."""
        event.stop()
        self.zoom(True, self._position(event.x))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Farther, around the pointer."""
        event.stop()
        self.zoom(False, self._position(event.x))

    def _point(self, event: events.MouseEvent) -> None:
        event.stop()
        if self._moments:
            self.put(self._moments[self._column(self._position(event.x))].x)

    def _position(self, x: int) -> float:
        share = (x - MEMORY_GUTTER - 1 + 0.5) / max(1, self.columns)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def _column(self, x: float) -> int:
        share = (x - self.begin) / (self.end - self.begin)
        return min(self.columns - 1, max(0, int(share * self.columns + 1e-9)))

    def _stretch(self, begin: float, span: float) -> None:
        length = self.track.length if self.track is not None else span
        self.begin = min(max(0.0, begin), max(0.0, length - span))
        self.end = self.begin + span

    def _changed(self) -> None:
        self._look_up()
        self.repaint()
        self.post_message(self.Moved(self.moment))

    def _look_up(self) -> None:
        track, columns = self.track, self.columns
        shown = track is not None and columns > 0
        self._moments = track.moments(self.begin, self.end, columns) if track and shown else []

    def _bands(self, track: Track) -> tuple[Band, ...]:
        bands = []
        for span in track.spans:
            if span.end >= self.begin and span.start < self.end:
                role = span.phase if span.phase in PHASE_ROLES else "muted"
                start, end = self._column(span.start), self._column(span.end)
                bands.append(Band(start, max(end, start + 1), span.phase, role))
        last = bands[-1] if bands else None
        if last is not None and last.end == self.columns - 1:
            bands[-1] = Band(last.start, self.columns, last.label, last.role)
        return tuple(bands)

    def _labels(self, track: Track) -> tuple[tuple[int, str], ...]:
        """Ticks: milliseconds, or the count of changes."""
        divisor, unit = (1e3, " ms") if track.by_time else (1.0, "")
        step = nice_ceiling((self.end - self.begin) / divisor / max(1, self.columns // 14))
        out = []
        tick = -(-self.begin // (step * divisor))
        while tick * step * divisor < self.end:
            out.append((self._column(tick * step * divisor), f"{tick * step:,.6g}{unit}"))
            tick += 1
        return tuple(out)
