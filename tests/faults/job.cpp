// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One job of the fault matrix: reaches its moment, lets the event happen to the culprit, tries again after an error,
// and ends. Each rank reports what it has seen; matrix.py compares that with what is documented.
//
//   fault-job event=kill moment=steady interface=communicator culprit=1 folder=FOLDER

#include "calls.hpp"
#include "events.hpp"
#include "report.hpp"
#include "settings.hpp"

#include <lockstep/cluster/environment.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace faults {
namespace {

constexpr int steps = 12;
constexpr int large_steps = 6;
constexpr int attempts = 3;

/// What the rank returns from main.
enum class Exit : std::uint8_t { right = 0, refused = 3, caught = 4, wrong = 9 };

class Job {
 public:
  Job(const Settings& settings, const Report& report, Events& events)
      : settings_(settings), report_(report), events_(events) {}

  Exit run() {
    begin_ = now();
    bool has_failed = false;
    try {
      if (to_the_moment() == Then::leave) return Exit::right;
    } catch (const lockstep::Error& error) {
      has_failed = true;
      report_.error("error", error, begin_);
    } catch (const std::bad_alloc&) {  // of this program's own memory, or of an argument
      has_failed = true;
      report_.shortage(begin_);
    } catch (const WrongResult& wrong) {
      report_.line("wrong", wrong.what());
      return Exit::wrong;
    }
    events_.relieve();
    if (!has_failed && !calls_) return Exit::refused;
    const bool works = calls_ && works_again();
    report_.line("leaving");
    if (works && settings_.moment == "shutdown") {
      if (shut_down() == Then::leave) return Exit::right;
    }
    calls_.reset();
    second_.reset();
    return works ? Exit::right : Exit::refused;
  }

 private:
  [[nodiscard]] bool at(const char* moment) const { return settings_.moment == moment; }
  [[nodiscard]] bool does(const char* event) const { return settings_.is_culprit() && settings_.event == event; }
  [[nodiscard]] std::unique_ptr<Calls> make(Change change = Change::none) const {
    return settings_.interface == "strategy" ? make_strategy_calls(settings_, change)
                                             : make_communicator_calls(settings_, change);
  }

  Then to_the_moment() {
    if (at("creation")) {
      if (create() == Then::leave) return Then::leave;
    } else {
      calls_ = make();
    }
    if (!calls_)
      throw std::logic_error("the others have not noticed that a rank did not create the first communicator");
    report_.line("created");
    if (at("first") && strike_in_calls(0) == Then::leave) return Then::leave;
    loop(steps);
    return strike_at_moment();
  }

  Then strike_at_moment() {
    const Strike strike = [this] {
      begin_ = now();
      return events_.happen();
    };
    Then then = Then::go_on;
    if (at("steady")) then = strike_in_calls(steps);
    if (at("large")) then = large();
    if (at("async")) then = calls_->in_flight(strike);
    if (at("merge")) calls_->in_merge(strike);
    if (at("dataset")) calls_->in_dataset(strike);
    if (at("checkpoint")) then = calls_->in_checkpoint(events_);
    if (then == Then::go_on) loop(steps);
    return then;
  }

  /// Creates two; an event is before the first, or a difference in what is created.
  Then create() {
    if (events_.happen() == Then::leave) return Then::leave;
    begin_ = now();
    const Change change = settings_.is_culprit() ? change_of(settings_.event) : Change::none;
    if (does("extra")) more_ = make();
    if (!does("skip")) calls_ = make(change);
    second_ = make();
    second_->call(Kind::gather, 1, Change::none);  // not what ranks call after an error
    return Then::go_on;
  }

  void loop(int count) {
    constexpr Kind kinds[] = {Kind::sum, Kind::broadcast, Kind::gather};
    for (int k = 0; k < count; ++k) {
      begin_ = now();
      calls_->call(kinds[k % 3], k, Change::none);
    }
  }

  Then strike_in_calls(int k) {
    begin_ = now();
    if (events_.happen() == Then::leave) return Then::leave;
    make_pair(settings_,
              {[&](Change change) { calls_->call(first_kind(settings_), k, change); },
               [&] { calls_->call(Kind::gather, k + 1, Change::none); }},
              [&] { calls_->call(Kind::gather, k + 2, Change::none); });
    return Then::go_on;
  }

  Then large() {
    for (int k = 0; k < large_steps; ++k) {
      begin_ = now();
      const bool is_now = k == large_steps / 2;
      std::jthread outside;
      if (is_now && events_.comes_from_outside()) {
        outside = events_.happen_in(std::chrono::microseconds(settings_.draw(6, 12'000)));
      } else if (is_now && events_.is_of_process()) {
        if (calls_->large_with(k, [this] { return events_.happen(); }) == Then::leave) return Then::leave;
        continue;
      } else if (is_now) {
        make_pair(settings_,
                  {[&](Change change) { calls_->large(k, change); },
                   [&] { calls_->call(Kind::gather, k + 1, Change::none); }},
                  [&] { calls_->call(Kind::gather, k + 2, Change::none); });
        continue;
      }
      calls_->large(k, Change::none);
    }
    return Then::go_on;
  }

  /// The last call, or the end itself.
  Then shut_down() {
    begin_ = now();
    try {
      if (events_.happen() == Then::leave) return Then::leave;
      if (events_.is_of_process() || does("skip")) return Then::go_on;
      calls_->call(first_kind(settings_), 1, settings_.is_culprit() ? change_of(settings_.event) : Change::none);
      if (does("extra")) calls_->call(Kind::gather, 2, Change::none);
    } catch (const lockstep::Error& error) {
      report_.error("error", error, begin_);
    }
    return Then::go_on;
  }

  /// Whether operations are right again, after as many attempts as the settings permit.
  bool works_again() {
    const double end = report_.event_time() + settings_.recover_seconds;
    for (int attempt = 0; attempt < attempts || now() < end; ++attempt) {
      const double begin = now();
      try {
        calls_->recover();
        for (int k = 0; k < 3; ++k) calls_->call(Kind::sum, 49, Change::none);
        report_.line("right");
        return true;
      } catch (const lockstep::Error& error) {
        report_.error("attempt", error, begin);
      } catch (const WrongResult& wrong) {
        report_.line("wrong", wrong.what());
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  const Settings& settings_;
  const Report& report_;
  Events& events_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Calls> second_;
  std::unique_ptr<Calls> more_;
  double begin_ = 0;
};

Exit run(Settings& settings, Report& report, int& argc, char**& argv) {
  Events events(settings, report);
  events.prepare_process();
  const lockstep::Environment environment(argc, argv);
  settings.rank = environment.rank();
  settings.ranks = environment.size();
  report.open(settings);
  report.line("started");
  return Job(settings, report, events).run();
}

Exit run_and_catch(Settings& settings, Report& report, int& argc, char**& argv) {
  try {
    return run(settings, report, argc, argv);
  } catch (const Boom& boom) {
    std::fprintf(stderr, "caught: %s\n", boom.what());
    return Exit::caught;
  }
}

}  // namespace
}  // namespace faults

int main(int argc, char** argv) {
  faults::Settings settings = faults::read_settings(argc, argv);
  faults::Report report;
  const bool catches = settings.event == "caught";
  const faults::Exit code =
      catches ? faults::run_and_catch(settings, report, argc, argv) : faults::run(settings, report, argc, argv);
  report.line("left", std::to_string(static_cast<int>(code)));
  return static_cast<int>(code);
}
