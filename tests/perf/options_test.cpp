// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of lockstep-perf, as far as they need no MPI job.

#include "bench/perf/options.hpp"
#include "bench/harness/option_values.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace perf {
namespace {

Options parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"lockstep-perf"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const OptionError& error) {
    return error.what();
  }
  return {};
}

/// A file that the destructor removes.
class File {
 public:
  explicit File(const std::string& text) : name_(testing::TempDir() + "lockstep-perf-options-test") {
    std::ofstream(name_) << text;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::remove(name_.c_str()); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

struct Refused {
  std::vector<std::string> arguments;
  std::vector<std::string> parts;
};

TEST(Options, name_the_option_the_value_and_the_rule_if_refused) {
  const std::vector<Refused> all{
      {{"-b", "12Q"}, {"--minbytes", "\"12Q\"", "64K"}},
      {{"-b", "0"}, {"--minbytes", "\"0\"", "from 1"}},
      {{"-b", "1K", "-e", "8"}, {"--maxbytes", "\"8\"", "\"1K\""}},
      {{"-f", "1"}, {"--stepfactor", "\"1\"", "at least 2"}},
      {{"-f", "2", "-i", "8"}, {"--stepbytes", "\"8\"", "one of the two"}},
      {{"-d", "f8"}, {"--datatype", "\"f8\"", "bf16"}},
      {{"-o", "average"}, {"--op", "\"average\"", "mean"}},
      {{"-d", "bool", "-o", "sum"}, {"--op", "\"sum\"", "bool", "bool takes min"}},
      {{"-n", "0"}, {"--iters", "\"0\"", "from 1"}},
      {{"-c", "2"}, {"--check", "\"2\"", "0, 1"}},
      {{"--compare", "gloo"}, {"--compare", "\"gloo\"", "mpi, nccl"}},
      {{"--compare", "nccl"}, {"--compare", "\"nccl\"", "--memory is malloc", "give --memory cuda"}},
      {{"--memory", "cuda", "--compare", "nccl", "--list", "resnet50"}, {"--compare", "\"nccl\"", "no --list"}},
      {{"--memory", "cuda", "--compare", "nccl", "--collective", "reduce"}, {"--compare", "\"nccl\"", "all_reduce"}},
      {{"--memory", "cuda", "--compare", "nccl", "-d", "u16"}, {"--compare", "\"nccl\"", "u16", "--datatype"}},
      {{"--memory", "cuda", "--compare", "nccl", "-d", "u8", "-o", "bor"}, {"--compare", "\"nccl\"", "bor", "--op"}},
      {{"--memory", "cuda", "--limit"}, {"--limit", "--memory is cuda"}},
      {{"--order", "random"}, {"--order", "\"random\"", "canonical, any"}},
      {{"--in-place", "maybe"}, {"--in-place", "\"maybe\"", "both"}},
      {{"--collective", "all_to_none"}, {"--collective", "\"all_to_none\"", "reduce_scatter"}},
      {{"--collective", "all_gather", "--in-place", "yes"}, {"--in-place", "\"yes\"", "all_gather", "no or both"}},
      {{"--form", "later"}, {"--form", "\"later\"", "blocking, async, in_flight, loop, async_loop"}},
      {{"--form", "async", "--async"}, {"--async", "--form \"async\"", "give one of the two"}},
      {{"--collective", "split", "--form", "in_flight"}, {"--form", "\"in_flight\"", "split", "give blocking"}},
      {{"--collective", "halo", "--form", "blocking,loop"},
       {"--form", "\"blocking,loop\"", "halo", "async, in_flight or async_loop"}},
      {{"--memory", "cuda", "--compare", "nccl", "--form", "in_flight"},
       {"--compare", "\"nccl\"", "--form has several", "async"}},
      {{"--memory", "cuda", "--compare", "nccl", "--form", "loop"}, {"--compare", "\"nccl\"", "--form has several"}},
      {{"--root", "-1"}, {"--root", "\"-1\"", "from 0"}},
      {{"--replicas-per-rank", "0"}, {"--replicas-per-rank", "\"0\"", "1 to 1024"}},
      {{"--memory", "stone"}, {"--memory", "\"stone\"", "arena, malloc, huge, cuda"}},
      {{"--memory", "cuda", "--mpi-memory", "cuda"}, {"--mpi-memory", "\"cuda\"", "arena, malloc, huge"}},
      {{"--mpi-memory", "wax"}, {"--mpi-memory", "\"wax\"", "arena, malloc, huge"}},
      {{"--thread-level", "many"}, {"--thread-level", "\"many\"", "single, funneled, serialized, multiple"}},
      {{"--list", "resnet49"}, {"--list", "\"resnet49\"", "resnet50, bert_base", "file"}},
      {{"--list", "resnet50", "-b", "64"}, {"--list", "\"resnet50\"", "--minbytes", "\"64\""}},
      {{"--list", "resnet50", "--collective", "reduce"}, {"--list", "\"resnet50\"", "--collective", "\"reduce\""}},
      {{"--list", "resnet50", "--in-place", "both"}, {"--list", "\"resnet50\"", "--in-place", "\"both\""}},
      {{"--list", "resnet50", "-d", "i32", "-o", "mean"}, {"--list", "mean of integers", "-d"}},
      {{"--list", "resnet50", "--form", "in_flight"},
       {"--list", "\"resnet50\"", "--form \"in_flight\"", "blocking or async"}},
      {{"--list", "resnet50", "--osu"}, {"--osu", "--list", "\"resnet50\""}},
      {{"--limit=maybe"}, {"--limit", "does not take"}},
      {{"--plot", "picture.gif"}, {"--plot", "\"picture.gif\"", ".png, .svg, .pdf or .txt"}},
      {{"--plot", "-", "--collective", "barrier"}, {"--plot", "\"-\"", "barrier"}},
      {{"--plot", "-", "--collective", "split,barrier"}, {"--plot", "\"-\"", "split"}},
      {{"--config", "/no/such/file"}, {"--config", "cannot be read", "No such file"}},
      {{"-d", "flot"}, {"--datatype", "\"flot\"", "f32 (float)", "f16 (half)"}},
      {{"-o", "average"}, {"--op", "mean (avg)"}},
      {{"--collective", "allreduced"}, {"--collective", "\"allreduced\"", "all_reduce", "allreduce", "bcast"}},
      {{"-m", "64:8"}, {"-m/--message-size", "\"64:8\"", "MIN:MAX"}},
      {{"-m", "8:1Q"}, {"-m/--message-size", "\"1Q\"", "-b MIN -e MAX", "64K"}},
      {{"-m", ":"}, {"-m/--message-size", "\":\""}},
      {{"-m", "8:64", "-e", "64"}, {"-m/--message-size", "\"8:64\"", "-e/--maxbytes", "\"64\"", "one of the two"}},
      {{"-x", "-1"}, {"-x/--warmup", "-w/--warmup-iters", "\"-1\"", "from 0"}},
      {{"-x", "2", "-w", "3"}, {"-x/--warmup \"2\"", "-w/--warmup-iters \"3\"", "one of the two"}},
      {{"--iterations", "0"}, {"--iterations", "-n/--iters", "\"0\"", "from 1"}},
      {{"-i", "1", "-e", "1G"}, {"-i/--stepbytes", "OSU's -i", "-n"}},
      {{"--list", "resnet50", "-m", "64"}, {"--list", "\"resnet50\"", "--message-size", "\"64\""}},
      {{"--speed", "high"}, {"--speed", "--help"}},
      {{"--replicas", "2"}, {"--replicas'", "unrecognised", "--help"}},
      {{"fast"}, {"\"fast\"", "--help"}},
  };
  for (const Refused& refused : all) {
    const std::string text = refusal(refused.arguments);
    for (const std::string& part : refused.parts) {
      EXPECT_NE(text.find(part), std::string::npos) << refused.arguments.front() << ": " << part << " in: " << text;
    }
  }
}

TEST(Options, take_the_spellings_of_other_benchmarks) {
  using lockstep::DType;
  using lockstep::ReduceOp;
  const Options types = parse({"-d", "half,bfloat16,float,double,int8,int,int64,uint8,uint64", "-o", "min"});
  EXPECT_EQ(types.dtypes, (std::vector{DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::i32,
                                       DType::i64, DType::u8, DType::u64}));
  EXPECT_EQ(parse({"-o", "avg,prod"}).ops, (std::vector{ReduceOp::mean, ReduceOp::prod}));
  const Options calls = parse({"--collective", "allreduce,AllGather,reducescatter,bcast,alltoall,allgatherv,Reduce"});
  EXPECT_EQ(calls.collectives,
            (std::vector{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                         Collective::broadcast, Collective::all_to_all, Collective::all_gather_v, Collective::reduce}));
  const Options osu = parse({"-m", "64:1K", "-x", "7", "--iterations", "9"});
  EXPECT_EQ(osu.min_bytes, 64);
  EXPECT_EQ(osu.max_bytes, 1024);
  EXPECT_EQ(osu.warmup_iterations, 7);
  EXPECT_EQ(osu.iterations, 9);
  EXPECT_EQ(parse({"-m", "128"}).max_bytes, 128);
  EXPECT_EQ(parse({"-m", ":128"}).min_bytes, 8);
  EXPECT_EQ(parse({"-m", "1G:"}).max_bytes, 1 << 30);
  EXPECT_EQ(parse({"--warmup_iters", "3"}).warmup_iterations, 3);
}

TEST(Options, name_several_forms) {
  EXPECT_EQ(parse({"--form", "async,in_flight"}).forms, (std::vector{Form::async, Form::in_flight}));
  EXPECT_EQ(parse({"--form", "all"}).forms.size(), form_count);
  EXPECT_EQ(refusal({"--collective", "halo,split", "--form", "all"}), "");
  EXPECT_EQ(refusal({"--collective", "all", "--form", "in_flight"}), "");
  EXPECT_EQ(refusal({"--list", "resnet50", "--form", "blocking,async"}), "");
}

TEST(Options, of_files_and_variables_are_refused_alike) {
  const Variable speed("LOCKSTEP_PERF_SPEED", "3");
  EXPECT_NE(refusal({}).find("LOCKSTEP_PERF_SPEED"), std::string::npos);
  unsetenv("LOCKSTEP_PERF_SPEED");
  const Variable limit("LOCKSTEP_PERF_LIMIT", "maybe");
  const std::string text = refusal({});
  EXPECT_TRUE(text.find("'limit'") != std::string::npos && text.find("'maybe'") != std::string::npos) << text;
  unsetenv("LOCKSTEP_PERF_LIMIT");
  const File config("speed = 3\n");
  EXPECT_NE(refusal({"--config", config.name()}).find("speed"), std::string::npos);
}

TEST(Options, are_named_as_the_variable_or_the_file_that_set_them) {
  const Variable size("LOCKSTEP_PERF_MINBYTES", "12Q");
  const std::string text = refusal({});
  EXPECT_TRUE(text.starts_with("environment variable LOCKSTEP_PERF_MINBYTES \"12Q\": give")) << text;
  EXPECT_TRUE(refusal({"-b", "13Q"}).starts_with("-b/--minbytes \"13Q\"")) << "the command line hides the variable";
  unsetenv("LOCKSTEP_PERF_MINBYTES");
  const File config("iters = 0\n");
  const std::string of_file = "\"" + config.name() + "\": iters \"0\": give";
  EXPECT_TRUE(refusal({"--config", config.name()}).starts_with("--config " + of_file));
  const Variable name("LOCKSTEP_PERF_CONFIG", config.name().c_str());
  EXPECT_TRUE(refusal({}).starts_with("environment variable LOCKSTEP_PERF_CONFIG " + of_file)) << refusal({});
}

TEST(Options, refuse_a_list_by_its_line) {
  const File list("64\n# nothing\n6 4\n");
  const std::string text = refusal({"--list", list.name()});
  EXPECT_NE(text.find("line 3 \"6 4\""), std::string::npos) << text;
  const File empty("# nothing\n");
  EXPECT_NE(refusal({"--list", empty.name()}).find("no numbers"), std::string::npos);
}

TEST(Options, take_switches_from_everywhere) {
  const Variable limit("LOCKSTEP_PERF_LIMIT", "1");
  const File config("percentiles = on\n");
  const Options options = parse({"--async", "--config", config.name()});
  EXPECT_TRUE(options.limit && options.percentiles);
  EXPECT_EQ(options.forms, std::vector{Form::async});
  EXPECT_FALSE(options.osu);
}

TEST(Options, run_a_comparison_at_the_thread_level_of_mpi_programs) {
  EXPECT_EQ(parse({}).thread_level, std::nullopt);
  EXPECT_EQ(parse({"--compare", "mpi"}).thread_level, ThreadLevel::single);
  EXPECT_EQ(parse({"--compare", "mpi", "--thread-level", "multiple"}).thread_level, ThreadLevel::multiple);
}

TEST(Options, leave_the_order_to_lockstep_unless_one_is_given) {
  EXPECT_EQ(parse({}).order, std::nullopt);
  EXPECT_EQ(parse({"--memory", "cuda"}).order, std::nullopt);
  EXPECT_EQ(parse({"--memory", "cuda", "--order", "canonical"}).order, lockstep::Order::canonical);
  EXPECT_EQ(parse({"--memory", "cuda"}).mpi_memory, "malloc");
}

TEST(Options, move_bools_with_any_op) { EXPECT_EQ(refusal({"-d", "bool", "--collective", "broadcast"}), ""); }

}  // namespace
}  // namespace perf
