// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/options.hpp"

#include "apps/options/program_options.hpp"
#include "bench/harness/gradient_list.hpp"
#include "bench/harness/option_values.hpp"
#include "bench/perf/memory.hpp"
#include "bench/perf/option_description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace perf {
namespace {

namespace po = boost::program_options;

std::string text_or(const po::variables_map& values, const char* name, const std::string& otherwise) {
  return values.count(name) != 0 ? values[name].as<std::string>() : otherwise;
}

/// A value, and the option that gave it, as error texts name it.
struct Given {
  std::string option;
  std::string text;
};

/// An option's name for Boost, and in error texts.
struct Spelling {
  const char* name;
  std::string_view option;
};

/// The value of the option `own`, which may be given by one of `others` instead, spellings of OSU or nccl-tests.
std::optional<Given> given_as(const po::variables_map& values, Spelling own, std::initializer_list<Spelling> others) {
  std::optional<Given> given;
  if (values.count(own.name) != 0) given = Given{std::string(own.option), values[own.name].as<std::string>()};
  for (const Spelling& other : others) {
    if (values.count(other.name) == 0) continue;
    const auto& text = values[other.name].as<std::string>();
    if (given) {
      refuse("{} \"{}\": {} \"{}\" is given too, and both are one option; give one of the two", other.option, text,
             given->option, given->text);
    }
    given = Given{fmt::format("{} (the same as {})", other.option, own.option), text};
  }
  return given;
}

/// -m/--message-size of OSU: MAX, MIN:MAX, MIN: or :MAX.
void read_message_size(const po::variables_map& values, Options& options) {
  if (values.count("message-size") == 0) return;
  constexpr std::string_view option = "-m/--message-size";
  const std::string text = values["message-size"].as<std::string>();
  for (const auto& [name, own] : {Spelling{"minbytes", "-b/--minbytes"}, Spelling{"maxbytes", "-e/--maxbytes"}}) {
    if (values.count(name) == 0) continue;
    refuse("{} \"{}\": {} \"{}\" is given too, and -m MIN:MAX is -b MIN -e MAX; give one of the two", option, text, own,
           values[name].as<std::string>());
  }
  const std::size_t colon = text.find(':');
  const std::string least = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string most = colon == std::string::npos ? text : text.substr(colon + 1);
  const std::string place = fmt::format("{} \"{}\": MIN:MAX (the same as -b MIN -e MAX):", option, text);
  if (!least.empty() || most.empty()) options.min_bytes = size_bytes(place, least);
  if (!most.empty()) options.max_bytes = size_bytes(place, most);
  if (most.empty()) options.max_bytes = std::max(options.max_bytes, options.min_bytes);
  if (options.max_bytes < options.min_bytes)
    refuse("{} \"{}\": the largest size is below the smallest; give MIN:MAX", option, text);
}

void read_sizes(const po::variables_map& values, Options& options) {
  read_message_size(values, options);
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (given("minbytes")) options.min_bytes = size_bytes("-b/--minbytes", text("minbytes"));
  if (given("maxbytes")) options.max_bytes = size_bytes("-e/--maxbytes", text("maxbytes"));
  // with -b alone, the largest size is at least that
  if (given("minbytes") && !given("maxbytes")) options.max_bytes = std::max(options.max_bytes, options.min_bytes);
  if (options.max_bytes < options.min_bytes) {
    refuse("-e/--maxbytes \"{}\": the largest size is below the smallest, -b/--minbytes \"{}\"; give at least that",
           given("maxbytes") ? text("maxbytes") : std::to_string(options.max_bytes),
           text_or(values, "minbytes", std::to_string(options.min_bytes)));
  }
  if (given("stepfactor") && given("stepbytes")) {
    refuse("-i/--stepbytes \"{}\": -f/--stepfactor \"{}\" is given too; give one of the two", text("stepbytes"),
           text("stepfactor"));
  }
  if (given("stepbytes")) options.step_bytes = size_bytes("-i/--stepbytes", text("stepbytes"));
  if (given("stepfactor")) {
    options.step_factor =
        whole_number("-f/--stepfactor", text("stepfactor"), 2, std::int64_t{1} << 40, "a whole number of at least 2");
  }
  if (options.step_bytes != 0 && (options.max_bytes - options.min_bytes) / options.step_bytes >= 100'000) {
    refuse(
        "-i/--stepbytes \"{}\": that makes {} sizes from -b {} to -e {}; give a step that makes at most 100000 (OSU's "
        "-i, the number of calls, is -n here)",
        text("stepbytes"), (options.max_bytes - options.min_bytes) / options.step_bytes + 1, options.min_bytes,
        options.max_bytes);
  }
}

bool has_several_calls(Form form) { return calls_of(form) > 1; }

/// --list, which replaces the sizes.
void read_list(const po::variables_map& values, Options& options) {
  if (values.count("list") == 0) return;
  options.list = values["list"].as<std::string>();
  for (const char* const name : {"minbytes", "maxbytes", "message-size", "stepfactor", "stepbytes"}) {
    if (values.count(name) == 0) continue;
    refuse("--list \"{}\": --{} \"{}\" is given too, but the list has its own sizes; give one of the two", options.list,
           name, values[name].as<std::string>());
  }
  if (options.collectives != std::vector{Collective::all_reduce}) {
    refuse("--list \"{}\": --collective \"{}\" is given too, but lists are for all_reduce; give one of the two",
           options.list, text_or(values, "collective", ""));
  }
  if (text_or(values, "in-place", "yes") != "yes") {
    refuse("--list \"{}\": --in-place \"{}\" is given too, but lists are reduced in place; give yes", options.list,
           text_or(values, "in-place", ""));
  }
  if (std::ranges::any_of(options.forms, has_several_calls)) {
    refuse("--list \"{}\": --form \"{}\" is given too, but a list has several calls of its own; give blocking or async",
           options.list, text_or(values, "form", ""));
  }
  options.placements = {Placement::in_place};
  options.list_counts = gradient_list("--list", options.list);
  const bool is_possible = std::any_of(options.dtypes.begin(), options.dtypes.end(), [&](lockstep::DType dtype) {
    return std::any_of(options.ops.begin(), options.ops.end(), [&](lockstep::ReduceOp op) {
      return lockstep::supports(op, dtype) && lockstep::result_dtype(op, dtype) == dtype;
    });
  });
  if (!is_possible) {
    refuse("--list \"{}\": lists are reduced in place, but the mean of integers is f64; give another -o or -d",
           options.list);
  }
}

void read_operation(const po::variables_map& values, Options& options) {
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (given("datatype")) options.dtypes = dtypes("-d/--datatype", text("datatype"));
  if (given("op")) options.ops = reduce_ops("-o/--op", text("op"));
  const bool all = (given("datatype") && text("datatype") == "all") || (given("op") && text("op") == "all");
  const bool reduces = std::any_of(options.collectives.begin(), options.collectives.end(),
                                   [](Collective collective) { return traits(collective).reduces; });
  for (const lockstep::ReduceOp op : options.ops) {
    for (const lockstep::DType dtype : options.dtypes) {
      if (!all && reduces && !lockstep::supports(op, dtype)) {
        const std::string_view rule = dtype == lockstep::DType::boolean
                                          ? "bool takes min, max, band, bor and bxor"
                                          : "only integers and bool take band, bor and bxor";
        refuse("-o/--op \"{}\": {} does not support {} of -d/--datatype; {}", text_or(values, "op", "sum"),
               lockstep::to_string(op), lockstep::to_string(dtype), rule);
      }
    }
  }
  if (given("order")) {
    const auto names = {std::string_view("canonical"), std::string_view("any")};
    options.order = one_of("--order", text("order"), names) == 0 ? lockstep::Order::canonical : lockstep::Order::any;
  }
  if (given("root")) {
    options.root = static_cast<int>(whole_number("-r/--root", text("root"), 0, 1'000'000, "a rank, from 0"));
  }
  if (given("replicas-per-rank")) {
    options.replicas_per_rank = static_cast<int>(
        whole_number("--replicas-per-rank", text("replicas-per-rank"), 1, 1024, "a number from 1 to 1024"));
  }
  options.prepared = !values["unprepared"].as<bool>();
}

/// --form, and --async, which is one of its values.
void read_forms(const po::variables_map& values, Options& options) {
  const bool is_async = values["async"].as<bool>();
  if (is_async) options.forms = {Form::async};
  if (values.count("form") == 0) return;
  const std::string text = values["form"].as<std::string>();
  if (is_async) refuse("--async: --form \"{}\" is given too, and --async is --form async; give one of the two", text);
  options.forms = forms("--form", text);
  for (const Collective collective : options.collectives) {
    if (text == "all" || options.has_all_collectives() || !options.forms_of(collective).empty()) continue;
    refuse("--form \"{}\": {} of --collective has no such call; give {}", text, traits(collective).name,
           has_form(collective, Form::blocking) ? "blocking" : "async, in_flight or async_loop");
  }
}

void read_collectives(const po::variables_map& values, Options& options) {
  const std::string names = text_or(values, "collective", "all_reduce");
  options.collectives = collectives("--collective", names);
  const auto which =
      one_of("--in-place", text_or(values, "in-place", options.node_report ? "yes" : "both"), {"no", "yes", "both"});
  if (which == 0) options.placements = {Placement::out_of_place};
  if (which == 1) options.placements = {Placement::in_place};
  for (const Collective collective : options.collectives) {
    if (which == 1 && !options.has_all_collectives() && !traits(collective).has_in_place) {
      refuse("--in-place \"yes\": {} of --collective has no in-place form; give no or both", traits(collective).name);
    }
  }
}

/// Refuses options that NCCL's own call does not support.
void check_nccl(const Options& options) {
  using lockstep::DType;
  using lockstep::ReduceOp;
  constexpr std::string_view refused = "--compare \"nccl\"";
  if (!memory_kind(options.memory).is_on_gpus) {
    refuse("{}: NCCL works on GPUs, but --memory is {}; give --memory cuda", refused, options.memory);
  }
  if (!options.list.empty() || options.collectives != std::vector{Collective::all_reduce}) {
    refuse("{}: only ncclAllReduce of one tensor is compared; give no --list, and no --collective except all_reduce",
           refused);
  }
  if (std::ranges::any_of(options.forms, has_several_calls)) {
    refuse("{}: one call of ncclAllReduce is compared, but --form has several calls; give blocking or async", refused);
  }
  for (const DType dtype : options.dtypes) {
    if (dtype != DType::i16 && dtype != DType::u16 && dtype != DType::boolean) continue;
    refuse("{}: NCCL does not support {}; give another -d/--datatype", refused, lockstep::to_string(dtype));
  }
  for (const ReduceOp op : options.ops) {
    if (op != ReduceOp::band && op != ReduceOp::bor && op != ReduceOp::bxor) continue;
    refuse("{}: NCCL does not support {}; give another -o/--op", refused, lockstep::to_string(op));
  }
}

void read_comparison(const po::variables_map& values, Options& options) {
  options.compare = static_cast<Peer>(
      one_of("--compare", text_or(values, "compare", options.node_report ? "mpi" : "none"), {"none", "mpi", "nccl"}));
  if (options.compare == Peer::mpi) options.thread_level = ThreadLevel::single;
  if (values.count("thread-level") != 0) {
    options.thread_level = static_cast<ThreadLevel>(one_of("--thread-level", values["thread-level"].as<std::string>(),
                                                           {"single", "funneled", "serialized", "multiple"}));
  }
  if (options.compare == Peer::nccl) check_nccl(options);
  if (options.compare != Peer::mpi) return;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  for (const lockstep::DType dtype : options.dtypes) {
    if (!options.list.empty() || count_elements(options.max_bytes, dtype) <= most) continue;
    refuse("-e/--maxbytes \"{}\": MPI's collectives take at most 2^31 - 1 elements of {}; give less, or no --compare",
           text_or(values, "maxbytes", "64M"), lockstep::to_string(dtype));
  }
  for (const std::int64_t count : options.list_counts) {
    if (count <= most) continue;
    refuse("--list \"{}\": MPI's collectives take at most 2^31 - 1 elements, not {}; give less, or no --compare",
           options.list, count);
  }
}

void read_memory(const po::variables_map& values, Options& options) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> host_names;
  for (const MemoryKind& kind : memory_kinds()) {
    names.push_back(kind.name);
    if (!kind.is_on_gpus) host_names.push_back(kind.name);
  }
  options.memory =
      names[one_of("--memory", text_or(values, "memory", options.node_report ? "arena" : "malloc"), names)];
  options.mpi_memory = host_names[one_of(
      "--mpi-memory", text_or(values, "mpi-memory", std::string(memory_kind(options.memory).peer).c_str()),
      host_names)];
  if (!memory_kind(options.memory).is_on_gpus) return;
  if (options.limit) {
    refuse("--limit: the limit is measured in host memory, but --memory is {}; give no --limit", options.memory);
  }
}

void read_measurement(const po::variables_map& values, Options& options) {
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  constexpr std::int64_t most = 10'000'000;
  if (const auto calls = given_as(values, {"iters", "-n/--iters"}, {{"iterations", "--iterations"}})) {
    options.iterations = whole_number(calls->option, calls->text, 1, most, "a number from 1 to 10000000");
  }
  if (const auto calls = given_as(values, {"warmup-iters", "-w/--warmup-iters"},
                                  {{"warmup_iters", "--warmup_iters"}, {"warmup", "-x/--warmup"}})) {
    options.warmup_iterations = whole_number(calls->option, calls->text, 0, most, "a number from 0 to 10000000");
  }
  if (given("check")) options.check = one_of("-c/--check", text("check"), {"0", "1"}) == 1;
  options.limit = values["limit"].as<bool>();
  read_memory(values, options);
  read_comparison(values, options);
}

void read_output(const po::variables_map& values, Options& options) {
  options.json = text_or(values, "json", "");
  options.csv = text_or(values, "csv", "");
  options.baseline = text_or(values, "baseline", "");
  options.plot = text_or(values, "plot", "");
  options.percentiles = values["percentiles"].as<bool>();
  options.osu = values["osu"].as<bool>();
  if (options.osu && !options.list.empty()) {
    refuse("--osu: --list \"{}\" is given too, but OSU's columns are size and time; give one of the two", options.list);
  }
  if (options.plot.empty()) return;
  const std::string_view name = options.plot;
  if (name != "-" && !name.ends_with(".png") && !name.ends_with(".svg") && !name.ends_with(".pdf") &&
      !name.ends_with(".txt")) {
    refuse("--plot \"{}\": give a name that ends in .png, .svg, .pdf or .txt, or - for the terminal", name);
  }
  if (std::ranges::none_of(options.collectives, has_sizes)) {
    refuse("--plot \"{}\": {} of --collective has no sizes to plot over; give another collective", name,
           traits(options.collectives.front()).name);
  }
}

}  // namespace

std::string peer_name(Peer peer) {
  switch (peer) {
    case Peer::none: break;
    case Peer::mpi: return "MPI";
    case Peer::nccl: return "NCCL";
  }
  return {};
}

std::int64_t count_elements(std::int64_t bytes, lockstep::DType dtype) noexcept {
  return std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(lockstep::size_of(dtype)));
}

std::vector<std::int64_t> Options::sizes_bytes() const {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = min_bytes; bytes <= max_bytes;) {
    sizes.push_back(bytes);
    if (step_bytes == 0 && bytes > max_bytes / step_factor) break;
    bytes = step_bytes != 0 ? bytes + step_bytes : bytes * step_factor;
  }
  return sizes;
}

std::vector<Form> Options::forms_of(Collective collective) const {
  if (forms.empty()) return {has_form(collective, Form::blocking) ? Form::blocking : Form::async};
  std::vector<Form> all;
  for (const Form form : forms) {
    if (has_form(collective, form)) all.push_back(form);
  }
  return all;
}

namespace {

void read_all_options(int argc, const char* const* argv, Options& options) {
  const po::options_description all = option_description();
  const po::variables_map values = ::options::read(argc, argv, all, "LOCKSTEP_PERF_", options.sources);
  options.given = ::options::given_values(values, {"config", "json", "csv", "baseline", "plot"});
  if (values["help"].as<bool>()) options.help = help_text(all);
  options.version = values["version"].as<bool>();
  if (values.count("simulate") != 0) {
    options.simulate = parse_simulation("--simulate", values["simulate"].as<std::string>());
    options.max_bytes = simulated_max_bytes;
  }
  options.show_selection = values["show-selection"].as<bool>();
  options.strategy = values["strategy"].as<bool>();
  options.node_report = values["node-report"].as<bool>();
  if (options.node_report) options.step_factor = 8;
  options.input = values["input"].as<bool>();
  read_sizes(values, options);
  read_collectives(values, options);
  read_operation(values, options);
  read_forms(values, options);
  read_list(values, options);
  read_measurement(values, options);
  read_output(values, options);
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  try {
    read_all_options(argc, argv, options);
  } catch (const OptionError& error) {
    throw OptionError(::options::with_source(options.sources, error.what()));
  }
  return options;
}

}  // namespace perf
