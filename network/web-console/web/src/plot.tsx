// Plots: uPlot in the page's colours.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** The name of a colour of the page: --line-1 … --line-4. */
  color: 1 | 2 | 3 | 4;
  fill?: boolean;
}

interface PlotProps {
  label: string;
  lines: Line[];
  /** x, then one row for each line. */
  data: uPlot.AlignedData;
  /** What a value is shown as. */
  shown: (value: number) => string;
  time?: boolean;
  log?: boolean;
  /** The axis of x is at least so long. */
  span?: number;
  height?: number;
}

/** Of axes of time: the least distance that each is for, and how a time is written then. */
const TIMES = [
  [31_536_000, "{YYYY}"],
  [2_419_200, "{MMM} {YYYY}"],
  [86_400, "{D} {MMM}"],
  [60, "{HH}:{mm}"],
  [1, "{HH}:{mm}:{ss}"],
].map(([apart, form]) => [apart, form, null, null, null, null, null, null, 0]);

const color = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function options(props: PlotProps, width: number): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: color("--quiet"),
    grid: { stroke: color("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height: props.height ?? 150,
    padding: [8, 8, 0, 0],
    legend: { show: true, live: true },
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: {
        time: props.time ?? true,
        range: (plot, low, high) => (props.span ? lately(plot, props.span) : [low, high]),
      },
      y: props.log
        ? { distr: 3, log: 10 }
        : { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? high * 1.1 : 1] },
    },
    axes: [
      {
        ...axis,
        space: 80,
        size: 30,
        ...(props.time === false ? {} : { values: TIMES as uPlot.Axis.Values }),
      },
      {
        ...axis,
        size: 62,
        space: 28,
        values: (_, at) => at.map((v) => (v === null ? "" : props.shown(v))),
      },
    ],
    series: [
      {},
      ...props.lines.map((line) => ({
        label: line.label,
        stroke: color(`--line-${line.color}`),
        fill: line.fill ? color(`--fill-${line.color}`) : undefined,
        width: 1.75,
        points: { show: false },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : props.shown(value)),
      })),
    ],
  };
}

/** Up to the last value or now, so long as there is none or a single one, too. */
function lately(plot: uPlot, span: number): [number, number] {
  const at = plot.data[0];
  const high = at.at(-1) ?? Date.now() / 1000;
  return [Math.min(at[0] ?? high, high - span), high];
}

/** The legend tells of the last values as long as the mouse points at none. */
function tellLast(plot: uPlot) {
  const last = plot.data[0].length - 1;
  if ((plot.cursor.left ?? -1) < 0 && last >= 0) plot.setLegend({ idx: last }, false);
}

export function Plot(props: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const now = useRef(props);
  now.current = props;
  useEffect(() => {
    const element = place.current!;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      const made = options(now.current, Math.max(element.clientWidth, 200));
      plot.current = new uPlot(made, now.current.data, element);
      tellLast(plot.current);
    };
    draw();
    const seen = new ResizeObserver(() => {
      const width = Math.max(element.clientWidth, 200);
      if (plot.current && plot.current.width !== width) {
        plot.current.setSize({ width, height: now.current.height ?? 150 });
      }
    });
    seen.observe(element);
    scheme.addEventListener("change", draw);
    return () => {
      seen.disconnect();
      scheme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [props.lines.map((line) => line.label).join()]);
  useEffect(() => {
    if (!plot.current) return;
    plot.current.setData(props.data);
    tellLast(plot.current);
  }, [props.data]);
  return <div class="plot" ref={place} role="img" aria-label={props.label} />;
}
