#include "clients/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/output.h"

namespace tessera::client {
namespace {

constexpr int kBarWidth = 24;
constexpr auto kRedraw = std::chrono::milliseconds(50);
constexpr auto kLineInterval = std::chrono::seconds(1);

/// Whether stderr is a terminal on which a line can be redrawn.
bool redraws() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && !(kind != nullptr && std::string_view(kind) == "dumb");
}

/// Cuts a line to the width of stderr's terminal: a wrapped line could not be redrawn.
std::string fitting(const std::string& line) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return line;
  size_t columns = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    const bool begins_character = (static_cast<unsigned char>(line[at]) & 0xC0) != 0x80;  // in UTF-8
    if (begins_character && ++columns == size.ws_col) return line.substr(0, at);
  }
  return line;
}

}  // namespace

ProgressView::ProgressView(bool silent)
    : style_(silent      ? Style::kSilent
             : redraws() ? Style::kTerminal
                         : Style::kLines) {}

ProgressView::~ProgressView() { finish(); }

void ProgressView::finish() {
  if (open_line_) std::cerr << "\n";
  open_line_ = false;
}

void ProgressView::show(const std::string& phase, int64_t done, int64_t total, const std::string& text) {
  if (style_ == Style::kSilent) return;
  const auto now = std::chrono::steady_clock::now();
  const bool first = phase != last_phase_, last = total > 0 && done >= total;
  const auto interval = style_ == Style::kTerminal ? std::chrono::milliseconds(kRedraw) : kLineInterval;
  if (!first && !last && now - last_shown_ < interval) return;
  last_phase_ = phase;
  last_shown_ = now;
  if (style_ == Style::kLines) {
    std::cerr << phase << ": " << text << "\n";
    return;
  }
  std::string bar;
  if (total > 0) {
    const auto filled = static_cast<size_t>(kBarWidth * std::min(done, total) / total);
    bar = absl::StrCat("[", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), "] ");
  }
  // "\x1b[K" erases the rest of the previous line.
  std::cerr << "\r" << fitting(absl::StrFormat("%-9s %s%s", phase, bar, text)) << "\x1b[K" << std::flush;
  open_line_ = true;
}

void ProgressView::transfer(const std::string& what, int64_t done, int64_t total) {
  show(what, done, total, absl::StrCat(bytesText(done), " of ", bytesText(total)));
}

void ProgressView::waits(const std::string& reason) { show("queued", 0, 0, absl::StrCat("waits for ", reason)); }

void ProgressView::event(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kState:
      if (event.state().state() == v1::Job::QUEUED) show("queued", 0, 0, event.job_id());
      break;
    case v1::JobEvent::kQueue:
      show("queued", 0, 0, absl::StrCat(event.queue().position(), " ahead"));
      break;
    case v1::JobEvent::kProgress: {
      const v1::Progress& progress = event.progress();
      std::string text = progress.total() > 0 ? absl::StrCat(progress.done(), "/", progress.total(), " ") : "";
      show(progress.phase(), progress.done(), progress.total(), text + progress.detail());
      break;
    }
    case v1::JobEvent::kTune: {
      const v1::JobEvent::TuneProgress& tune = event.tune();
      std::string text = absl::StrFormat("%d/%d trials, %s -> %s ms", tune.done(), tune.total(),
                                         millisecondsText(tune.model_ms()), millisecondsText(tune.model_best_ms()));
      if (tune.expected_end_us() > event.time_us())
        absl::StrAppendFormat(&text, ", %s left",
                              durationText(static_cast<double>(tune.expected_end_us() - event.time_us()) / 1000));
      absl::StrAppendFormat(&text, "; %s: %.2f times as fast, %.1f GFLOP/s", tune.summary(),
                            tune.default_ms() / std::max(1e-9, tune.best_ms()), tune.gflops());
      if (tune.share_of_peak() > 0) absl::StrAppendFormat(&text, " (%.0f %% of the peak)", 100 * tune.share_of_peak());
      show("search", tune.done(), tune.total(), text);
      break;
    }
    case v1::JobEvent::kAttempt:
      if (event.attempt().has_failure() && style_ != Style::kSilent) {
        finish();
        std::cerr << "attempt " << event.attempt().attempt() << " of " << event.attempt().phase()
                  << " failed: " << event.attempt().failure().message() << "\n";
      }
      break;
    default:
      break;
  }
}

}  // namespace tessera::client
