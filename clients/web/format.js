// Formats numbers and times. protobuf's JSON encodes 64-bit numbers as text.

export const number = (value) => Number(value ?? 0);

/** Converts microseconds since the epoch. */
export const date = (us) => (number(us) ? new Date(number(us) / 1000) : null);

export function clock(us) {
  const at = date(us);
  return at ? at.toLocaleString(undefined, {dateStyle: "medium", timeStyle: "medium"}) : "";
}

export function ago(us) {
  const at = date(us);
  if (!at) return "";
  const seconds = Math.max(0, (Date.now() - at) / 1000);
  if (seconds < 5) return "just now";
  for (const [unit, size] of [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return "";
}

function figures(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  return Math.abs(value) >= 10 ** (digits - 1) ? Math.round(value).toLocaleString("en") : value.toPrecision(digits);
}

export function ms(value) {
  const time = number(value);
  if (time >= 120_000) return `${figures(time / 60_000)} min`;
  if (time >= 1000) return `${figures(time / 1000)} s`;
  if (time >= 1 || time === 0) return `${figures(time)} ms`;
  return `${figures(time * 1000)} µs`;
}

export function scaled(value, unit, base = 1000) {
  const prefixes = base === 1024 ? ["", "Ki", "Mi", "Gi", "Ti"] : ["", "k", "M", "G", "T", "P"];
  let size = number(value),
    step = 0;
  while (Math.abs(size) >= base && step < prefixes.length - 1) {
    size /= base;
    ++step;
  }
  return `${figures(size)} ${prefixes[step]}${unit}`;
}

export const bytes = (value) => scaled(value, "B", 1024);
export const percent = (share) =>
  Number.isFinite(share) ? `${(share * 100).toFixed(share !== 0 && Math.abs(share) < 0.1 ? 1 : 0)} %` : "–";
export const short = (hash, length = 12) => (hash ?? "").slice(0, length);
export const words = (name) => (name ?? "").toLowerCase().replaceAll("_", " ");
export const shape = (spec) =>
  `${words((spec.dtype ?? "").replace("DATA_TYPE_", ""))}[${(spec.shape ?? []).join("×")}]`;

export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length === 0 ? NaN : sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Median absolute deviation. */
export function spread(values) {
  const middle = median(values);
  return median(values.map((value) => Math.abs(value - middle)));
}
