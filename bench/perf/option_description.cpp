// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/option_description.hpp"

#include "apps/options/version.hpp"
#include "bench/input/input_rate.hpp"
#include "bench/perf/node_report.hpp"
#include "bench/simulate/selection.hpp"
#include "bench/simulate/simulation.hpp"
#include "bench/strategy/strategy_cost.hpp"

#include <sstream>

namespace perf {

namespace po = boost::program_options;

namespace {

po::typed_value<std::string>* text_value(const char* name) { return po::value<std::string>()->value_name(name); }

po::options_description size_options() {
  po::options_description sizes("Sizes (bytes of a replica; 64K, 16M and 1G are understood)");
  sizes.add_options()("minbytes,b", text_value("SIZE"), "smallest (default: 8)")(
      "maxbytes,e", text_value("SIZE"), "largest (default: 64M)")("stepfactor,f", text_value("N"),
                                                                  "each size is N times the one before (default: 2)")(
      "stepbytes,i", text_value("SIZE"), "each size is SIZE more than the one before, instead of -f")(
      "list", text_value("LIST"),
      "resnet50, bert_base or a file with one number of elements per line: an all_reduce of these gradients in place, "
      "as one call, one by one, in buckets of 25 MiB, and by GradientBuckets");
  return sizes;
}

po::options_description operation_options() {
  po::options_description operation("Operation");
  operation.add_options()("collective", text_value("LIST"),
                          "all_reduce, reduce, reduce_scatter, all_gather, gather, scatter, all_to_all, the last four "
                          "also with _v (uneven parts), broadcast, barrier; messages: send_recv, halo; creation: "
                          "duplicate, split, first_call; "
                          "several with commas, or all; also allreduce, bcast, ... (default: all_reduce)")(
      "form", text_value("LIST"),
      "blocking; async: an asynchronous call, then its wait; in_flight: 16 asynchronous calls, then their waits; loop "
      "and "
      "async_loop: 16 calls, one after the other, blocking or each with its wait; "
      "several "
      "with commas, or all (default: blocking; async for halo)")(
      "datatype,d", text_value("LIST"),
      "f16, bf16, f32, f64, i8 to i64, u8 to u64, bool, several with commas, or all; also half, float, double, "
      "bfloat16, int32, uint8, ... (default: f32)")(
      "op,o", text_value("LIST"),
      "sum, mean (or avg), min, max, prod, band, bor, bxor, several with commas, or all (default: sum)")(
      "order", text_value("ORDER"),
      "canonical: one result for every layout; any: MPI's own reduction, NCCL's on GPUs (default: canonical, but any "
      "with --memory cuda)")("in-place", text_value("WHICH"), "no, yes or both: where the result goes (default: both)")(
      "root,r", text_value("RANK"), "root of reduce, gather, scatter and broadcast (default: 0)")(
      "replicas-per-rank", text_value("N"), "number of inputs and outputs of each rank (default: 1)")(
      "async", po::bool_switch(), "--form async")(
      "unprepared", po::bool_switch(), "call all_reduce with its arguments, instead of running a prepared plan")(
      "node-report", po::bool_switch(), node_report_help)("strategy", po::bool_switch(), strategy_help)(
      "input", po::bool_switch(), input_help);
  return operation;
}

po::options_description measurement_options() {
  po::options_description measurement("Measurement");
  measurement.add_options()("iters,n", text_value("N"), "timed calls of each row; the median is shown (default: 20)")(
      "warmup-iters,w", text_value("N"), "calls for warm-up, not timed (default: 5)")(
      "check,c", text_value("0|1"), "compare every result with the expected bits (default: 1)")(
      "memory", text_value("KIND"),
      "memory of the buffers: arena, which the ranks of a node share; malloc; huge: malloc on huge pages; cuda: the "
      "GPUs of the node, divided among its ranks (default: malloc)")(
      "mpi-memory", text_value("KIND"),
      "memory of MPI's buffers: arena, malloc or huge (default: as --memory, but malloc beside arena and cuda)")(
      "compare", text_value("PEER"),
      "mpi: alternate with MPI's own call, and show lockstep / MPI; nccl: the same with ncclAllReduce (--memory cuda) "
      "(default: none)")("limit", po::bool_switch(),
                         "alternate with bare loads and stores of as many bytes, and show limit / lockstep")(
      "thread-level", text_value("LEVEL"),
      "single, funneled, serialized or multiple: the thread level of MPI (default: multiple; single with "
      "--compare "
      "mpi, as for programs that use MPI alone)");
  return measurement;
}

po::options_description other_spellings() {
  po::options_description spellings("Spellings of OSU's benchmarks and nccl-tests");
  spellings.add_options()("message-size,m", text_value("MIN:MAX"), "-b MIN -e MAX; MAX, MIN: and :MAX are understood")(
      "iterations", text_value("N"), "--iters (OSU's -i is -n here)")("warmup,x", text_value("N"), "--warmup-iters")(
      "warmup_iters", text_value("N"), "--warmup-iters");
  return spellings;
}

po::options_description simulation_options() {
  po::options_description simulation("Simulation");
  simulation.add_options()("simulate", text_value("CLUSTER"), simulation_help)("show-selection", po::bool_switch(),
                                                                               selection_help);
  return simulation;
}

po::options_description output_options() {
  po::options_description output("Output");
  output.add_options()("percentiles", po::bool_switch(), "show the 10th, 90th and 99th percentile as well")(
      "osu", po::bool_switch(), "print size and time alone, as the OSU benchmarks do")(
      "json", text_value("FILE"), "write environment and rows there as well")(
      "csv", text_value("FILE"), "write the rows there as well, a header before them")(
      "baseline", text_value("FILE"), "show this run / an earlier run, from the file that its --json wrote")(
      "plot", text_value("FILE"),
      "draw time, bandwidth and ratio over size: FILE.png, FILE.svg or FILE.pdf by lockstep-plot; the times as text by "
      "gnuplot: FILE.txt, or - for the terminal")("config", text_value("FILE"),
                                                  "read options from FILE, one name=value per line")(
      "help,h", po::bool_switch(), "show this text")("version", po::bool_switch(), ::options::version_help);
  return output;
}

}  // namespace

po::options_description option_description() {
  po::options_description all;
  all.add(size_options())
      .add(operation_options())
      .add(measurement_options())
      .add(other_spellings())
      .add(simulation_options())
      .add(output_options());
  return all;
}

std::string help_text(const po::options_description& all) {
  std::ostringstream out;
  out << "Usage: mpirun -n P lockstep-perf [options]\n"
         "Measures collectives as nccl-tests does, checks every result, and prints a table.\n\n"
         "Options come from the command line, then from variables such as LOCKSTEP_PERF_MAXBYTES, then from --config "
         "FILE.\n"
         "Exit code: 0 success, 1 a result was wrong, 2 an option is invalid.\n";
  out << all;
  return out.str();
}

}  // namespace perf
