// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "options.hpp"

#include "option_values.hpp"

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string_view>

namespace perf {
namespace {

namespace po = boost::program_options;

/// All values are read as text, so that each error can show what was written.
po::options_description description() {
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  po::options_description sizes("Sizes (bytes per rank; 64K, 16M and 1G are understood)");
  sizes.add_options()("minbytes,b", text("SIZE"), "smallest (default: 8)")(
      "maxbytes,e", text("SIZE"), "largest (default: 64M)")("stepfactor,f", text("N"),
                                                            "each size is N times the one before (default: 2)")(
      "stepbytes,i", text("SIZE"), "each size is SIZE more than the one before, instead of -f");
  po::options_description operation("Operation");
  operation.add_options()(
      "datatype,d", text("LIST"),
      "f16, bf16, f32, f64, i8 to i64, u8 to u64, bool, several with commas, or all (default: f32)")(
      "op,o", text("LIST"), "sum, mean, min, max, prod, band, bor, bxor, several with commas, or all (default: sum)")(
      "order", text("ORDER"), "canonical: one result for every layout; any: MPI's own reduction (default: canonical)")(
      "in-place", text("WHICH"), "no, yes or both: where the result goes (default: both)");
  po::options_description measurement("Measurement");
  measurement.add_options()("iters,n", text("N"), "timed calls of each row; the median is shown (default: 20)")(
      "warmup-iters,w", text("N"), "calls before them (default: 5)")(
      "check,c", text("0|1"), "compare every result with the expected bits (default: 1)")(
      "compare", text("PEER"), "mpi: alternate with MPI_Allreduce, and show ours / MPI (default: none)");
  po::options_description simulation("Simulation");
  simulation.add_options()("simulate", text("CLUSTER"), simulation_help);
  po::options_description output("Output");
  output.add_options()("json", text("FILE"), "write environment and rows there as well")(
      "config", text("FILE"), "read options from FILE, one name=value a line")("help,h", po::bool_switch(),
                                                                               "show this text");
  po::options_description all;
  all.add(sizes).add(operation).add(measurement).add(simulation).add(output);
  return all;
}

/// LOCKSTEP_PERF_WARMUP_ITERS is warmup-iters; variables without the prefix are none of ours.
std::string option_of_variable(const std::string& variable, const po::options_description& all) {
  constexpr std::string_view prefix = "LOCKSTEP_PERF_";
  if (!variable.starts_with(prefix)) return {};
  std::string name = variable.substr(prefix.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  if (all.find_nothrow(name, false) == nullptr) {
    refuse("variable {}: there is no option --{}; --help lists the options", variable, name);
  }
  return name;
}

/// Runs `read`; what Boost says gets the place that it speaks of.
void read_from(std::string_view place, const std::function<void()>& read) {
  try {
    read();
  } catch (const po::error& error) {
    refuse("{}: {}; --help lists the options", place, error.what());
  }
}

po::variables_map read(int argc, const char* const* argv, const po::options_description& all) {
  po::variables_map values;
  // what is stored first stays
  read_from("command line", [&] {
    const po::parsed_options parsed = po::command_line_parser(argc, argv).options(all).run();
    for (const po::option& option : parsed.options) {
      if (option.position_key >= 0) refuse("\"{}\" is no option; --help lists the options", option.value.front());
    }
    po::store(parsed, values);
  });
  read_from("LOCKSTEP_PERF_* variables", [&] {
    const auto option = [&](const std::string& variable) { return option_of_variable(variable, all); };
    po::store(po::parse_environment(all, option), values);
  });
  if (values.count("config") != 0) {
    const std::string name = values["config"].as<std::string>();
    std::ifstream file(name);
    if (!file) refuse("--config \"{}\": the file cannot be read; give a readable file", name);
    read_from(fmt::format("--config \"{}\"", name), [&] { po::store(po::parse_config_file(file, all), values); });
  }
  po::notify(values);
  return values;
}

std::string text_of(const po::options_description& all) {
  std::ostringstream out;
  out << "Usage: mpirun -n P lockstep-perf [options]\n"
         "Measures all_reduce as nccl-tests does, checks every result, and prints a table.\n\n"
         "Options come from the command line, then from variables such as LOCKSTEP_PERF_MAXBYTES, then from --config "
         "FILE.\n"
         "Exit code: 0 all is well, 1 a result was wrong, 2 an option cannot be.\n";
  out << all;
  return out.str();
}

std::string text_or(const po::variables_map& values, const char* name, const char* otherwise) {
  return values.count(name) != 0 ? values[name].as<std::string>() : otherwise;
}

void read_sizes(const po::variables_map& values, Options& options) {
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (given("minbytes")) options.min_bytes = size_bytes("-b/--minbytes", text("minbytes"));
  if (given("maxbytes")) options.max_bytes = size_bytes("-e/--maxbytes", text("maxbytes"));
  // -b alone means that size
  if (given("minbytes") && !given("maxbytes")) options.max_bytes = std::max(options.max_bytes, options.min_bytes);
  if (options.max_bytes < options.min_bytes) {
    refuse("-e/--maxbytes \"{}\": the largest size is below the smallest, -b/--minbytes {}; give at least that",
           given("maxbytes") ? text("maxbytes") : std::to_string(options.max_bytes), options.min_bytes);
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
    refuse("-i/--stepbytes \"{}\": that makes {} sizes from -b {} to -e {}; give a step that makes at most 100000",
           text("stepbytes"), (options.max_bytes - options.min_bytes) / options.step_bytes + 1, options.min_bytes,
           options.max_bytes);
  }
}

void read_operation(const po::variables_map& values, Options& options) {
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (given("datatype")) options.dtypes = dtypes("-d/--datatype", text("datatype"));
  if (given("op")) options.ops = reduce_ops("-o/--op", text("op"));
  const bool all = (given("datatype") && text("datatype") == "all") || (given("op") && text("op") == "all");
  for (const lockstep::ReduceOp op : options.ops) {
    for (const lockstep::DType dtype : options.dtypes) {
      if (!all && !lockstep::supports(op, dtype)) {
        refuse(
            "-o/--op \"{}\": {} takes no {} of -d/--datatype; bool takes min, max, band, bor and bxor, and only "
            "integers and bool take these three",
            text_or(values, "op", "sum"), lockstep::to_string(op), lockstep::to_string(dtype));
      }
    }
  }
  if (given("order")) {
    const auto names = {std::string_view("canonical"), std::string_view("any")};
    options.order = one_of("--order", text("order"), names) == 0 ? lockstep::Order::canonical : lockstep::Order::any;
  }
  if (given("in-place")) {
    const auto which = one_of("--in-place", text("in-place"), {"no", "yes", "both"});
    if (which == 0) options.placements = {Placement::out_of_place};
    if (which == 1) options.placements = {Placement::in_place};
  }
}

void read_measurement(const po::variables_map& values, Options& options) {
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  constexpr std::int64_t most = 10'000'000;
  if (given("iters"))
    options.iterations = whole_number("-n/--iters", text("iters"), 1, most, "a number from 1 to 10000000");
  if (given("warmup-iters")) {
    options.warmup_iterations =
        whole_number("-w/--warmup-iters", text("warmup-iters"), 0, most, "a number from 0 to 10000000");
  }
  if (given("check")) options.check = one_of("-c/--check", text("check"), {"0", "1"}) == 1;
  if (given("compare"))
    options.compare = one_of("--compare", text("compare"), {"none", "mpi"}) == 1 ? Peer::mpi : Peer::none;
  if (options.compare == Peer::mpi) {
    for (const lockstep::DType dtype : options.dtypes) {
      if (count_elements(options.max_bytes, dtype) <= std::numeric_limits<int>::max()) continue;
      refuse("-e/--maxbytes \"{}\": MPI_Allreduce takes at most 2^31 - 1 elements of {}; give less, or no --compare",
             text_or(values, "maxbytes", "64M"), lockstep::to_string(dtype));
    }
  }
}

}  // namespace

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

Options parse_options(int argc, const char* const* argv) {
  const po::options_description all = description();
  const po::variables_map values = read(argc, argv, all);
  Options options;
  if (values["help"].as<bool>()) options.help = text_of(all);
  if (values.count("json") != 0) options.json = values["json"].as<std::string>();
  if (values.count("simulate") != 0) {
    options.simulate = parse_simulation("--simulate", values["simulate"].as<std::string>());
    options.max_bytes = simulated_max_bytes;
  }
  read_sizes(values, options);
  read_operation(values, options);
  read_measurement(values, options);
  return options;
}

}  // namespace perf
