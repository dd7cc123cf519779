// Numbers as positions on the screen, as ticks, and as text.

function linear(low, high, start, end) {
  return (value) => start + ((value - low) / (high - low)) * (end - start);
}

function logarithmic(low, high, start, end) {
  const inner = linear(Math.log10(low), Math.log10(high), start, end);
  return (value) => inner(Math.log10(Math.max(value, 1e-30)));
}

// Steps of 1, 2 or 5 times a power of ten.
function ticks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((m) => m * power >= rough) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

// Powers of ten; their doubles and fives too where there are few, every other one where many.
function logTicks(low, high, most) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil(Math.log10(high / low) / most));
  const factors = last - first <= 2 && most > 3 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = first; power <= last; power++) {
    if (power % every) continue; // so that 1 is always one of them
    for (const factor of factors) found.push(factor * 10 ** power);
  }
  return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
function power(exponent) {
  const digits = [...String(Math.abs(exponent))].map((d) => DIGITS[d]).join("");
  return `10${exponent < 0 ? "⁻" : ""}${digits}`;
}

function text(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("-", "−");
  const decimals = Math.max(0, digits - 1 - Math.max(0, Math.floor(Math.log10(size || 1))));
  return value.toFixed(Math.min(decimals, 4)).replace("-", "−");
}

// As many decimals as the step between ticks needs.
function tickText(value, step) {
  const decimals = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toFixed(decimals).replace("-", "−");
}

function logText(value) {
  const exponent = Math.round(Math.log10(value));
  const exact = Math.abs(value / 10 ** exponent - 1) < 1e-6;
  if (value >= 0.01 && value < 1e4) return String(Number(value.toPrecision(2)));
  return exact ? power(exponent) : "";
}

// Two quantiles: `share` of the numbers lie below the first, and above the second.
function quantiles(values, share) {
  const sorted = Float32Array.from(values).sort();
  const at = (p) => sorted[Math.round(p * (sorted.length - 1))];
  return sorted.length ? [at(share), at(1 - share)] : null;
}
