// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-overlap: the time that reducing gradients adds to a step that computes them, if each is sent as soon as it
// is ready.
//
// Three steps alternate: computing alone, reducing alone, and both with GradientBuckets. The computation is a fixed
// amount of arithmetic, divided among the tensors by their size, from the last tensor to the first; after each part its
// tensor is written and declared ready. With --elsewhere the thread sleeps for as long instead. Reducing alone reduces
// the same buckets once all tensors are ready.

#include "apps/options/counted.hpp"
#include "apps/options/version.hpp"
#include "bench/harness/gradient_list.hpp"
#include "bench/harness/option_values.hpp"
#include "bench/harness/statistics.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/interop/mpi.hpp>
#include <lockstep/training/gradient_buckets.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/resource.h>
#include <boost/program_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace perf {
namespace {

using ::options::counted;

using Clock = std::chrono::steady_clock;

struct OverlapOptions {
  std::string list = "resnet50";
  double compute_seconds = 1.5;
  double bucket_mb = 4;
  int rounds = 5;
  bool is_elsewhere = false;  ///< an accelerator computes; this thread sleeps meanwhile
  bool wants_help = false;
  bool wants_version = false;
};

/// Arithmetic that the compiler cannot remove and that does not depend on memory.
[[gnu::noinline]] double work(std::int64_t iterations) {
  asm volatile("");  // every call counts
  double a = 1.0;
  double b = 1.0;
  for (std::int64_t i = 0; i < iterations; ++i) {
    a = a * 0.999999 + 1e-9;
    b = b * 1.000001 - 1e-9;
  }
  return a + b;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Processor time of this process.
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Step {
 public:
  Step(lockstep::Communicator& comm, const std::vector<std::int64_t>& counts, const OverlapOptions& options)
      : comm_(comm), elements_(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})) {
    for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
      tensors_.emplace_back(lockstep::DType::f32, lockstep::Shape{*count});
      views_.push_back(tensors_.back().view());
    }
    buckets_.emplace(comm, std::span(&views_, 1),
                     lockstep::GradientBucketsOptions{lockstep::ReduceOp::sum,
                                                      static_cast<std::size_t>(options.bucket_mb * (1 << 20))});
    if (options.is_elsewhere) {
      sleep_seconds_ = options.compute_seconds;
    } else {
      calibrate(options.compute_seconds);
    }
  }

  [[nodiscard]] std::size_t buckets() const { return buckets_->bucket_count(); }
  [[nodiscard]] double megabytes() const { return static_cast<double>(elements_) * sizeof(float) / 1e6; }

  [[nodiscard]] double compute() {
    return timed([this] {
      for (std::size_t k = 0; k < views_.size(); ++k) make(k);
    });
  }
  [[nodiscard]] double reduce() {
    for (std::size_t k = 0; k < views_.size(); ++k) fill(k);
    return timed([this] { buckets_->finish(0); });
  }
  [[nodiscard]] double both() {
    return timed([this] {
      for (std::size_t k = 0; k < views_.size(); ++k) {
        make(k);
        buckets_->ready(0, k);
      }
      buckets_->finish(0);
    });
  }

  /// Number of elements that differ from the expected sum.
  [[nodiscard]] std::int64_t wrong() const {
    const auto ranks = static_cast<float>(comm_.size());
    std::int64_t count = 0;
    for (std::size_t k = 0; k < views_.size(); ++k) {
      const float expected = ranks * (ranks + 1) / 2 + ranks * static_cast<float>(k);
      const auto* const values = static_cast<const float*>(views_[k].data);
      count += std::count_if(values, values + views_[k].shape.element_count(),
                             [expected](float value) { return value != expected; });
    }
    return count;
  }

 private:
  void fill(std::size_t k) {
    auto* const values = static_cast<float*>(views_[k].data);
    std::fill_n(values, views_[k].shape.element_count(), static_cast<float>(comm_.rank() + 1) + static_cast<float>(k));
  }
  void make(std::size_t k) {
    const double share = static_cast<double>(views_[k].shape.element_count()) / static_cast<double>(elements_);
    sink_ = work(static_cast<std::int64_t>(static_cast<double>(iterations_) * share));
    if (sleep_seconds_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(sleep_seconds_ * share));
    fill(k);
  }

  /// The largest of the ranks' times, in seconds.
  template <class Body>
  double timed(const Body& body) {
    comm_.barrier();
    const auto begin = Clock::now();
    body();
    double seconds = seconds_since(begin);
    comm_.all_reduce(std::span(&seconds, 1), lockstep::ReduceOp::max);
    return seconds;
  }

  /// The amount of work that takes this long alone, the same on all ranks.
  void calibrate(double seconds) {
    constexpr std::int64_t probe = 20'000'000;
    sink_ = work(probe);
    std::vector<double> rates;
    for (int i = 0; i < 5; ++i) {
      rates.push_back(timed([this] { sink_ = work(probe); }));
    }
    const double fastest = *std::min_element(rates.begin(), rates.end());
    iterations_ = static_cast<std::int64_t>(seconds / fastest * static_cast<double>(probe));
  }

  lockstep::Communicator& comm_;
  std::int64_t elements_;
  std::int64_t iterations_ = 0;
  double sleep_seconds_ = 0;
  std::vector<lockstep::Tensor> tensors_;
  std::vector<lockstep::TensorView> views_;
  std::optional<lockstep::GradientBuckets> buckets_;
  volatile double sink_ = 0;
};

/// Whether all sums were right.
bool measure(lockstep::Communicator& comm, const OverlapOptions& options) {
  Step step(comm, gradient_list("--list", options.list), options);
  std::vector<double> computing;
  std::vector<double> reducing;
  std::vector<double> together;
  std::vector<double> busy;
  std::int64_t wrong = 0;
  static_cast<void>(step.both());  // pages and connections
  for (int round = 0; round < options.rounds; ++round) {
    computing.push_back(step.compute());
    reducing.push_back(step.reduce());
    wrong += step.wrong();
    const double before = processor_seconds();
    together.push_back(step.both());
    busy.push_back(processor_seconds() - before);
    wrong += step.wrong();
  }
  comm.all_reduce(std::span(&wrong, 1), lockstep::ReduceOp::sum);
  if (comm.rank() == 0) {
    fmt::print("# lockstep-overlap: {} in {}, {:.1f} MB, on {} of {}; medians of {}, of the slowest rank each\n",
               options.list, counted(static_cast<std::int64_t>(step.buckets()), "bucket"), step.megabytes(),
               counted(comm.size(), "rank"), counted(comm.nodes(), "node"), counted(options.rounds, "round"));
    const double added = median(together) - median(computing);
    fmt::print("computing {:.3f} s, reducing {:.3f} s, together {:.3f} s: reducing adds {:.3f} s, {:.2f} of its time\n",
               median(computing), median(reducing), median(together), added, added / median(reducing));
    fmt::print("together takes {:.3f} s of the first rank's processors\n", median(busy));
    fmt::print("# Wrong values: {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  }
  return wrong == 0;
}

boost::program_options::options_description description_of(OverlapOptions& options) {
  namespace po = boost::program_options;
  po::options_description description(
      "Usage: mpirun -n P lockstep-overlap [options]\n"
      "Measures the time that reducing gradients adds to a step that computes them");
  description.add_options()("list", po::value(&options.list)->value_name("LIST"),
                            "resnet50, bert_base or a file, as for lockstep-perf (default: resnet50)")(
      "compute", po::value(&options.compute_seconds)->value_name("SECONDS"), "computation of a step (default: 1.5)")(
      "elsewhere", po::bool_switch(&options.is_elsewhere), "an accelerator computes: this thread sleeps")(
      "bucket", po::value(&options.bucket_mb)->value_name("MIB"), "size at which a bucket is sent (default: 4)")(
      "rounds,n", po::value(&options.rounds)->value_name("N"), "rounds of the three steps (default: 5)")(
      "help,h", po::bool_switch(&options.wants_help), "show this text")(
      "version", po::bool_switch(&options.wants_version), ::options::version_help);
  return description;
}

/// The same result on all ranks. Throws std::exception.
void read_options(int argc, char** argv, const boost::program_options::options_description& description,
                  const OverlapOptions& options) {
  namespace po = boost::program_options;
  constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map given;
  try {
    po::store(po::command_line_parser(argc, argv).options(description).positional({}).style(style).run(), given);
    po::notify(given);
  } catch (const po::error& error) {
    refuse("{}; --help lists the options", error.what());
  }
  if (options.rounds < 1) refuse("-n/--rounds \"{}\": give at least 1", options.rounds);
  if (!(options.compute_seconds >= 0)) refuse("--compute \"{}\": give at least 0 seconds", options.compute_seconds);
  if (!(options.bucket_mb > 0)) refuse("--bucket \"{}\": give more than 0 MiB", options.bucket_mb);
  static_cast<void>(gradient_list("--list", options.list));
}

int run(int argc, char** argv) {
  const lockstep::Environment environment(argc, argv);
  const bool speaks = environment.rank() == 0;
  OverlapOptions options;
  const auto description = description_of(options);
  try {
    read_options(argc, argv, description, options);
  } catch (const std::exception& error) {
    if (speaks) fmt::print(stderr, "lockstep-overlap: {}\n", error.what());
    return lockstep::exit_code::usage;
  }
  if (options.wants_help || options.wants_version) {
    if (speaks && options.wants_help) fmt::print("{}", fmt::streamed(description));
    if (speaks && !options.wants_help) fmt::print("{}", ::options::version_text("lockstep-overlap"));
    return lockstep::exit_code::success;
  }
  lockstep::Communicator comm = lockstep::world_communicator();
  return measure(comm, options) ? lockstep::exit_code::success : lockstep::exit_code::failure;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) { return perf::run(argc, argv); }
