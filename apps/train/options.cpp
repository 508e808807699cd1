// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/options.hpp"

#include "apps/options/number.hpp"
#include "apps/options/program_options.hpp"
#include "apps/options/version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options.hpp>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>

namespace train {
namespace {

namespace po = boost::program_options;

using ::options::refuse;

/// All values are read as text, so that each error can quote it.
po::options_description description() {
  const auto text = [] { return po::value<std::string>(); };
  po::options_description data("Data and model");
  data.add_options()(
      "data", text()->value_name("DIR"),
      "directory of the Fashion-MNIST files, or \"synthetic\" (default: /usr/share/datasets/fashion-mnist)");
  data.add_options()("model", text()->value_name("NAME"), "mlp (784-256-10 with ReLU) or cnn (default: mlp)");
  po::options_description training("Training");
  training.add_options()("epochs", text()->value_name("N"), "passes over the training images (default: 5)");
  training.add_options()("steps", text()->value_name("N"), "number of steps, instead of --epochs");
  training.add_options()("global-batch", text()->value_name("N"), "images per step, over all replicas (default: 256)");
  training.add_options()("no-epoch-tests", po::bool_switch(),
                         "with --epochs, do not show the accuracy on the test images after each epoch");
  training.add_options()("optimizer", text()->value_name("NAME"), "sgd, momentum or adam (default: momentum)");
  training.add_options()("learning-rate", text()->value_name("X"),
                         "initial rate of the cosine decay (default: 0.5 sgd, 0.1 momentum, 0.001 adam)");
  training.add_options()("seed", text()->value_name("N"),
                         "seed of the initial parameters and the order of the images (default: 1)");
  training.add_options()(
      "bucket-bytes", text()->value_name("N"),
      "gradients are sent, while others are computed, in buckets of at least N bytes (default: 4194304)");
  po::options_description layout("Layout");
  layout.add_options()(
      "replicas-per-rank", text()->value_name("N|LIST"),
      "replicas of each rank: one number for all, or a list such as 2,1,1 with one entry per rank (default: 1)");
  layout.add_options()("device", text()->value_name("NAME"),
                       "cpu or gpu: device of parameters and of the reduction; CPUs if a rank has no GPU "
                       "(default: cpu)");
  layout.add_options()(
      "arithmetic", text()->value_name("NAME"),
      "cpu or gpu: device of the mlp's arithmetic with --device gpu; CPUs if a rank has no cuBLAS, and "
      "for the cnn (default: gpu)");
  po::options_description restarts("Checkpoints");
  restarts.add_options()(
      "checkpoint-dir", text()->value_name("DIR"),
      "save checkpoints there; on SIGTERM, SIGUSR1 or SIGINT save after the current step and exit with 75");
  restarts.add_options()("save-every", text()->value_name("N"), "save after every N steps (default: only on a signal)");
  restarts.add_options()("keep-last", text()->value_name("N"), "checkpoints to keep, 0 for all (default: 5)");
  restarts.add_options()("resume", po::bool_switch(), "continue from the last checkpoint, if there is one");
  po::options_description output("Output");
  output.add_options()("json", text()->value_name("FILE"), "write the summary there as JSON");
  output.add_options()("quiet", po::bool_switch(), "print no header and no progress");
  output.add_options()("progress", text()->value_name("STYLE"),
                       "bar, lines, or auto: a bar on a terminal, lines elsewhere (default: auto)");
  output.add_options()("config", text()->value_name("FILE"), "read options from FILE, one name=value per line");
  output.add_options()("help", po::bool_switch(), "show this text");
  output.add_options()("version", po::bool_switch(), ::options::version_help);
  po::options_description all(
      "Usage: mpirun -n P lockstep-train [options]\n"
      "Options come from the command line, then from variables such as LOCKSTEP_TRAIN_EPOCHS, then from --config FILE");
  all.add(data).add(training).add(layout).add(restarts).add(output);
  return all;
}

template <class Number>
Number number(std::string_view option, std::string_view text, Number least, Number most, std::string_view rule) {
  const auto value = ::options::number_of<Number>(text);
  if (!value || !(*value >= least) || !(*value <= most)) refuse("--{} \"{}\": give {}", option, text, rule);
  return *value;
}

std::string one_of(std::string_view option, const std::string& text, std::initializer_list<std::string_view> names) {
  if (std::find(names.begin(), names.end(), text) == names.end())
    refuse("--{} \"{}\": give one of {}", option, text, fmt::join(names, ", "));
  return text;
}

std::vector<int> replica_counts(const std::string& text, int ranks) {
  std::vector<int> counts;
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const auto count = ::options::number_of<int>(entry);
    if (!count || *count < 1 || *count > 1024) {
      refuse("--replicas-per-rank \"{}\": \"{}\" is not a number from 1 to 1024; every rank has at least one replica",
             text, entry);
    }
    counts.push_back(*count);
  }
  if (counts.size() == 1 && text.find(',') == std::string::npos)
    counts.resize(static_cast<std::size_t>(ranks), counts.front());
  if (counts.size() != static_cast<std::size_t>(ranks)) {
    refuse(
        "--replicas-per-rank \"{}\": the list has {} entr{}, but the job has {} rank{}; give one entry per rank, or "
        "one number for all",
        text, counts.size(), counts.size() == 1 ? "y" : "ies", ranks, ranks == 1 ? "" : "s");
  }
  return counts;
}

void read_all_options(int argc, const char* const* argv, int ranks, Options& options) {
  const po::options_description all = description();
  const po::variables_map values = ::options::read(argc, argv, all, "LOCKSTEP_TRAIN_", options.sources);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4096;
  options.given = ::options::given_values(values, {"config", "json", "quiet", "progress"});
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (values["help"].as<bool>()) {
    std::ostringstream out;
    out << all;
    options.help = out.str();
  }
  options.version = values["version"].as<bool>();
  if (given("data")) options.data = text("data");
  if (given("model")) options.model = one_of("model", text("model"), {"mlp", "cnn"});
  if (given("epochs")) options.epochs = number("epochs", text("epochs"), 1, 1'000'000, "a number from 1 to 1000000");
  if (given("steps")) options.steps = number<std::int64_t>("steps", text("steps"), 1, most, "a positive number");
  if (given("epochs") && given("steps"))
    refuse("--steps: --epochs is given as well, and both set the number of steps; give one of the two");
  if (given("global-batch"))
    options.global_batch =
        number<std::int64_t>("global-batch", text("global-batch"), 1, 1 << 30, "a number from 1 to 2^30");
  if (given("bucket-bytes"))
    options.bucket_bytes =
        number<std::size_t>("bucket-bytes", text("bucket-bytes"), 1, std::size_t{1} << 40, "a number from 1 to 2^40");
  if (given("optimizer")) options.optimizer = one_of("optimizer", text("optimizer"), {"sgd", "momentum", "adam"});
  if (given("learning-rate"))
    options.learning_rate = number("learning-rate", text("learning-rate"), 1e-12, 1e6, "a positive number up to 1e6");
  if (given("seed"))
    options.seed = number<std::uint64_t>("seed", text("seed"), 0, std::numeric_limits<std::uint64_t>::max(),
                                         "a number from 0 to 2^64 - 1");
  if (given("checkpoint-dir")) options.checkpoint_dir = text("checkpoint-dir");
  if (given("save-every"))
    options.save_every = number<std::int64_t>("save-every", text("save-every"), 1, most, "a positive number");
  if (given("keep-last"))
    options.keep_last = number("keep-last", text("keep-last"), 0, 1'000'000, "a number of at least 0");
  options.resume = values["resume"].as<bool>();
  if (options.checkpoint_dir.empty()) {
    if (options.resume) refuse("--resume: there is no directory to resume from; give --checkpoint-dir");
    if (options.save_every != 0) refuse("--save-every: there is no directory to save to; give --checkpoint-dir");
    if (given("keep-last")) refuse("--keep-last: there is no directory of checkpoints; give --checkpoint-dir");
  }
  if (given("device")) options.on_gpus = one_of("device", text("device"), {"cpu", "gpu"}) == "gpu";
  if (given("arithmetic")) {
    options.models_on_gpus = one_of("arithmetic", text("arithmetic"), {"cpu", "gpu"}) == "gpu";
    if (options.models_on_gpus && !options.on_gpus)
      refuse("--arithmetic \"gpu\": the arithmetic runs on GPUs only if the parameters are there; give --device gpu");
  }
  options.tests_epochs = !given("steps") && !values["no-epoch-tests"].as<bool>();
  if (given("progress")) {
    const std::string style = one_of("progress", text("progress"), {"auto", "bar", "lines"});
    if (style == "bar") options.progress = ProgressStyle::bar;
    if (style == "lines") options.progress = ProgressStyle::lines;
  }
  if (given("json")) options.json = text("json");
  options.quiet = values["quiet"].as<bool>();
  options.replicas_per_rank = replica_counts(given("replicas-per-rank") ? text("replicas-per-rank") : "1", ranks);
}

}  // namespace

Options parse_options(int argc, const char* const* argv, int ranks) {
  Options options;
  try {
    read_all_options(argc, argv, ranks, options);
  } catch (const OptionError& error) {
    throw OptionError(::options::with_source(options.sources, error.what()));
  }
  return options;
}

double initial_learning_rate(const Options& options) {
  if (options.learning_rate) return *options.learning_rate;
  if (options.optimizer == "sgd") return 0.5;
  return options.optimizer == "adam" ? 0.001 : 0.1;
}

}  // namespace train
