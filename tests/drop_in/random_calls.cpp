// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random collectives of MPI: each call is made twice, by its name, which the drop-in may serve, and by the function of
// the MPI library itself. The buffers must be equal afterwards, byte by byte, also between the elements. Sums and
// products of floating-point numbers are compared with the canonical tree instead, since MPI promises no order.
//
//   random-calls CALLS SEED      prints "CALLS calls, N wrong" on rank 0

#include "drop_in/calls.h"
#include "typed_data.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace {

lockstep_calls library{};

/// Finds the functions of the MPI library. The program's own names are those of the preloaded library.
void find_library() {
  void* handle = nullptr;
  for (const char* file : {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"})
    if (handle == nullptr) handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  const auto load = [&](auto& target, const char* name) {
    void* const address = handle != nullptr ? dlsym(handle, name) : nullptr;
    if (address == nullptr) {
      std::fprintf(stderr, "random_calls: %s is not found\n", name);
      std::exit(1);
    }
    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(address);
  };
#define LOCKSTEP_LOAD(name, parameters, arguments) load(library.name, "PMPI_" #name);
  LOCKSTEP_EACH_CALL(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
}

using drop_in_test::Base;
using drop_in_test::bases;
using drop_in_test::below;
using drop_in_test::canonical;
using drop_in_test::fill;
using drop_in_test::Random;

/// The collectives that `functions` has; if `is_large`, those with large counts, where MPI has them.
struct Calls {
  const lockstep_calls& functions;
  bool is_large;
  int size;  ///< of arrays of counts

#if MPI_VERSION >= 4
  /// An argument of type `Narrow` as one of type `Wide`.
  template <class Narrow, class Wide>
  struct Argument {
    Narrow value;
    explicit Argument(Narrow narrow, int) : value(narrow) {}
    operator Wide() const { return value; }  // NOLINT(google-explicit-constructor)
  };
  template <class Wide>
    requires(!std::is_same_v<Wide, int>)
  struct Argument<const int*, const Wide*> {
    std::vector<Wide> values;
    bool is_null;
    explicit Argument(const int* narrow, int size) : is_null(narrow == nullptr) {
      if (!is_null) values.assign(narrow, narrow + size);
    }
    operator const Wide*() const { return is_null ? nullptr : values.data(); }  // NOLINT(google-explicit-constructor)
  };
  template <class... Narrow, class... Wide>
  auto choose(int (*narrow)(Narrow...), int (*wide)(Wide...)) const {
    return [this, narrow, wide](Narrow... arguments) {
      return is_large ? wide(Argument<Narrow, Wide>(arguments, size)...) : narrow(arguments...);
    };
  }
#define LOCKSTEP_CHOOSE(name) choose(functions.name, functions.name##_c)
#else
#define LOCKSTEP_CHOOSE(name) functions.name
#endif
#define LOCKSTEP_COUNT_ARGUMENTS(name, parameters, arguments) \
  int name parameters const { return LOCKSTEP_CHOOSE(name) arguments; }
  LOCKSTEP_CALLS_WITH_COUNTS(LOCKSTEP_COUNT_ARGUMENTS, , int, int)
#undef LOCKSTEP_CHOOSE
#undef LOCKSTEP_COUNT_ARGUMENTS
};

struct Group {
  MPI_Comm comm;
  int rank;
  int size;
};

class Test {
 public:
  Test(std::vector<Group> groups, std::uint64_t seed) : groups_(std::move(groups)), seed_(seed) {}

  void run(std::uint64_t number) {
    number_ = number;
    random_.seed(seed_ * 7919 + number);  // equal on all ranks
    const int which = below(random_, static_cast<int>(groups_.size()));
    group_ = groups_[static_cast<std::size_t>(which)];
    own_.seed(seed_ * 104729 + number * 31 + static_cast<std::uint64_t>(group_.rank) + 1);
    const auto all = bases();
    base_ = all[static_cast<std::size_t>(below(random_, static_cast<int>(all.size())))];
    const int scale = below(random_, 50);
    count_ = scale == 0 ? below(random_, 20000) : scale < 5 ? 0 : 1 + below(random_, 40);
#ifdef MPICH_VERSION
    if (base_.gap().end > 0) count_ %= 100;  // MPICH 4.0.2 fails on messages of elements with gaps above 8 KiB
#endif
    root_ = below(random_, group_.size);
    is_large_ = below(own_, 2) == 0;
    reference_is_large_ = below(random_, 2) == 0;
    switch (below(random_, 12)) {
      case 0:
      case 1:
      case 2: reduction(); break;
      case 3: bcast(); break;
      case 4: allgather(); break;
      case 5: allgatherv(); break;
      case 6: rooted(); break;
      case 7: rooted_v(); break;
      case 8: alltoall(); break;
      case 9: alltoallv(); break;
      case 10: reduce_scatter(); break;
      default: wrong_arguments(); break;
    }
  }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  /// A description of `elements` elements (a multiple of 6) of the base type; each rank chooses its own.
  struct Layout {
    MPI_Datatype type;
    int count;
    std::int64_t extent;  ///< bytes from one element of `type` to the next
    std::int64_t span;    ///< bytes of the buffer
    bool is_derived = false;
  };
  /// MPI 4 makes types by functions with large counts, too, and tells the two kinds apart.
  void make_type(int form, MPI_Datatype& type) {
#if MPI_VERSION >= 4
    if (is_large_) {
      const std::array<MPI_Count, 2> lengths{1, 2};
      const std::array<MPI_Count, 2> places{3, 0};
      if (form == 1) MPI_Type_contiguous_c(3, base_.type, &type);
      if (form == 2) MPI_Type_vector_c(2, 1, 2, base_.type, &type);
      if (form == 3) MPI_Type_indexed_c(2, lengths.data(), places.data(), base_.type, &type);
      if (form == 4) {
        MPI_Datatype one = MPI_DATATYPE_NULL;
        MPI_Type_contiguous_c(1, base_.type, &one);
        MPI_Type_dup(one, &type);
        MPI_Type_free(&one);
      }
      return;
    }
#endif
    const std::array lengths{1, 2};
    const std::array places{3, 0};
    if (form == 1) MPI_Type_contiguous(3, base_.type, &type);
    if (form == 2) MPI_Type_vector(2, 1, 2, base_.type, &type);
    if (form == 3) MPI_Type_indexed(2, lengths.data(), places.data(), base_.type, &type);
    if (form == 4) MPI_Type_dup(base_.type, &type);
  }
  Layout layout(std::int64_t elements, int form) {
    const auto bytes = static_cast<std::int64_t>(base_.bytes);
    MPI_Datatype type = base_.type;
    const int per_type = form == 1 || form == 3 ? 3 : form == 2 ? 2 : 1;
    make_type(form, type);
    const bool is_derived = form != 0;
    if (is_derived) MPI_Type_commit(&type);
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type, &lower, &extent);
    const auto count = static_cast<int>(elements / per_type);
    return {type, count, extent, std::max<std::int64_t>(extent, bytes) * count + 64, is_derived};
  }
  Layout any_layout(std::int64_t elements) { return layout(elements, below(own_, 5)); }
  Layout same_layout(std::int64_t elements) { return layout(elements, below(random_, 5)); }
  void release(Layout& made) {
    if (made.is_derived) MPI_Type_free(&made.type);
  }

  using Bytes = std::vector<std::byte>;
  Bytes noise(std::int64_t size) {
    Bytes result(static_cast<std::size_t>(size));
    for (std::byte& byte : result) byte = static_cast<std::byte>(own_());
    return result;
  }
  void expect(const char* what, bool is_right) {
    if (is_right) return;
    if (++wrong_ >= 5) return;
    std::array<char, MPI_MAX_OBJECT_NAME> type{};
    int length = 0;
    MPI_Type_get_name(base_.type, type.data(), &length);
    std::fprintf(stderr, "wrong: call %llu, %s, rank %d of %d, count %d, root %d, %s, operation %d\n",
                 static_cast<unsigned long long>(number_), what, group_.rank, group_.size, count_, root_, type.data(),
                 operation_);
  }
  /// Ranks may mix functions with large counts and others.
  [[nodiscard]] Calls tested() const { return {current_, is_large_, group_.size}; }
  [[nodiscard]] Calls reference() const { return {library, reference_is_large_, group_.size}; }

  /// Makes the call twice, on copies of `out`.
  template <class Call>
  void compare(const char* what, const Bytes& out, const Call& call) {
    Bytes mine = out;
    Bytes other = out;
    const int a = call(tested(), mine.data());
    const int b = call(reference(), other.data());
    const auto [begin, end] = base_.gap();
    for (std::size_t i = 0; begin < end && i + end <= mine.size(); i += base_.bytes)
      std::copy(&mine[i + begin], &mine[i] + end, &other[i + begin]);
    expect(what, a == b && mine == other);
  }

  void reduction() {
    const std::vector<MPI_Op> ops = base_.operations();
    if (ops.empty()) return;
    operation_ = below(random_, static_cast<int>(ops.size()));
    const MPI_Op op = ops[static_cast<std::size_t>(operation_)];
    const bool is_rooted = below(random_, 2) == 0;
#ifdef MPICH_VERSION
    constexpr bool root_may_be_in_place = false;  // MPICH 4.0.2 fails for some operations
#else
    constexpr bool root_may_be_in_place = true;
#endif
    const bool may_be_in_place = !is_rooted || (root_may_be_in_place && group_.rank == root_);
    const bool in_place = below(own_, 2) == 0 && may_be_in_place;
    Bytes in(static_cast<std::size_t>(count_) * base_.bytes + 16);
    fill(base_, in.data(), count_, number_, group_.rank);
    Bytes out = in_place ? in : noise(static_cast<std::int64_t>(in.size()));
    const auto call = [&](const Calls& calls, std::byte* to) {
      const void* const from = in_place ? MPI_IN_PLACE : in.data();
      return is_rooted ? calls.Reduce(from, to, count_, base_.type, op, root_, group_.comm)
                       : calls.Allreduce(from, to, count_, base_.type, op, group_.comm);
    };
    if (!base_.rounds() || (op != MPI_SUM && op != MPI_PROD)) {
      compare(is_rooted ? "reduce" : "allreduce", out, call);
      return;
    }
    Bytes expected = out;
    if (!is_rooted || group_.rank == root_) {
      const Bytes sum = canonical(base_, op == MPI_SUM, count_, number_, group_.size);
      std::copy(sum.begin(), sum.end(), expected.begin());
    }
    expect("result of call", call(tested(), out.data()) == MPI_SUCCESS);
    expect(is_rooted ? "reduce in canonical order" : "allreduce in canonical order", out == expected);
  }

  void reduce_scatter() {
    if (base_.kind != Base::integer) base_ = {MPI_LONG, 8, Base::integer};
    const bool is_block = below(random_, 2) == 0;
    std::vector<int> counts(static_cast<std::size_t>(group_.size), count_ % 50);
    if (!is_block && below(random_, 2) == 0)
      for (int& count : counts) count = below(random_, 20);
    const int total = std::accumulate(counts.begin(), counts.end(), 0);
    Bytes in(static_cast<std::size_t>(total) * base_.bytes + 16);
    fill(base_, in.data(), total, number_, group_.rank);
    const bool in_place = below(own_, 2) == 0;
    const auto call = [&](const Calls& calls, std::byte* to) {
      const void* const from = in_place ? MPI_IN_PLACE : in.data();
      return is_block ? calls.Reduce_scatter_block(from, to, counts[0], base_.type, MPI_SUM, group_.comm)
                      : calls.Reduce_scatter(from, to, counts.data(), base_.type, MPI_SUM, group_.comm);
    };
    if (!in_place) {
      compare("reduce_scatter", noise(static_cast<std::int64_t>(in.size())), call);
      return;
    }
    // in place, MPI leaves the rest of the buffer undefined
    Bytes mine = in;
    Bytes other = in;
    const int a = call(tested(), mine.data());
    const int b = call(reference(), other.data());
    const std::size_t own = static_cast<std::size_t>(counts[static_cast<std::size_t>(group_.rank)]) * base_.bytes;
    expect("reduce_scatter in place",
           a == b && std::equal(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(own), other.begin()));
  }

  void bcast() {
    Layout own = any_layout(6 * count_);
    const Bytes data = noise(own.span);
    compare("bcast", data, [&](const Calls& calls, std::byte* to) {
      return calls.Bcast(to, own.count, own.type, root_, group_.comm);
    });
    release(own);
  }

  void allgather() {
#ifdef I_MPI_VERSION
    // Intel MPI 2021.18 takes the count of what is sent for that of what is received
    const int form = below(random_, 5);
    Layout in = layout(6 * count_, form);
    Layout out = layout(6 * count_, form);
#else
    Layout in = any_layout(6 * count_);
    Layout out = any_layout(6 * count_);
#endif
    const Bytes data = noise(in.span);
    const bool in_place = below(random_, 2) == 0;
    compare("allgather", noise(out.span * group_.size), [&](const Calls& calls, std::byte* to) {
      return calls.Allgather(in_place ? MPI_IN_PLACE : data.data(), in.count, in.type, to, out.count, out.type,
                             group_.comm);
    });
    release(in);
    release(out);
  }

  /// Counts of all ranks, in units of 6 elements, some of them 0.
  std::vector<int> some_counts() {
    std::vector<int> counts;
    for (int i = 0; i < group_.size; ++i)
      counts.push_back(below(random_, 3) == 0 ? 0 : below(random_, 1 + count_ % 200));
    return counts;
  }
  /// Places for `counts` elements of `type`, with gaps and in any order if `scattered`; returns their end.
  int places_for(const std::vector<int>& counts, bool scattered, std::vector<int>& places) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), 0);
    if (scattered) std::shuffle(order.begin(), order.end(), own_);
    places.assign(counts.size(), 0);
    int next = scattered ? below(own_, 3) : 0;
    for (const std::size_t i : order) {
      places[i] = next;
      next += counts[i] + (scattered ? below(own_, 3) : 0);
    }
    return next;
  }
  struct Vector {
    Layout layout;
    std::vector<int> counts;
    std::vector<int> places;
    std::int64_t span = 0;
  };
  Vector vector_of(const std::vector<int>& sixes) { return vector_of(sixes, any_layout(6)); }
  Vector vector_of(const std::vector<int>& sixes, const Layout& six) {
    Vector result{six, {}, {}, 0};
    for (const int count : sixes) result.counts.push_back(count * result.layout.count);
    const int end = places_for(result.counts, below(own_, 2) == 0, result.places);
    result.span = result.layout.extent * (end + 1) + 64;
    return result;
  }

  void allgatherv() {
    // the same types on all ranks: with others, ranks of Open MPI 4.1.4 choose different algorithms, and wait for ever
    const std::vector<int> sixes = some_counts();
    Layout in = same_layout(6 * sixes[static_cast<std::size_t>(group_.rank)]);
    Vector out = vector_of(sixes, same_layout(6));
    const Bytes data = noise(in.span);
    const bool in_place = below(random_, 2) == 0;
    compare("allgatherv", noise(out.span), [&](const Calls& calls, std::byte* to) {
      return calls.Allgatherv(in_place ? MPI_IN_PLACE : data.data(), in.count, in.type, to, out.counts.data(),
                              out.places.data(), out.layout.type, group_.comm);
    });
    release(in);
    release(out.layout);
  }

  void rooted() {
    Layout in = any_layout(6 * count_);
    Layout out = any_layout(6 * count_);
    const bool is_root = group_.rank == root_;
    const bool in_place = is_root && below(own_, 2) == 0;
    if (below(random_, 2) == 0) {
      const Bytes data = noise(in.span);
      compare("gather", noise(out.span * group_.size), [&](const Calls& calls, std::byte* to) {
        return calls.Gather(in_place ? MPI_IN_PLACE : data.data(), in.count, in.type, is_root ? to : nullptr, out.count,
                            out.type, root_, group_.comm);
      });
    } else {
      const Bytes data = noise(in.span * group_.size);
      compare("scatter", noise(out.span), [&](const Calls& calls, std::byte* to) {
        return calls.Scatter(is_root ? data.data() : nullptr, in.count, in.type, in_place ? MPI_IN_PLACE : to,
                             out.count, out.type, root_, group_.comm);
      });
    }
    release(in);
    release(out);
  }

  void rooted_v() {
    const std::vector<int> sixes = some_counts();
    Layout one = any_layout(6 * sixes[static_cast<std::size_t>(group_.rank)]);
    Vector all = vector_of(sixes);
    const bool is_root = group_.rank == root_;
    const bool in_place = is_root && below(own_, 2) == 0;
    if (below(random_, 2) == 0) {
      const Bytes data = noise(one.span);
      compare("gatherv", noise(all.span), [&](const Calls& calls, std::byte* to) {
        return calls.Gatherv(in_place ? MPI_IN_PLACE : data.data(), one.count, one.type, to,
                             is_root ? all.counts.data() : nullptr, is_root ? all.places.data() : nullptr,
                             all.layout.type, root_, group_.comm);
      });
    } else {
      const Bytes data = noise(all.span);
      compare("scatterv", noise(one.span), [&](const Calls& calls, std::byte* to) {
        return calls.Scatterv(data.data(), is_root ? all.counts.data() : nullptr, is_root ? all.places.data() : nullptr,
                              all.layout.type, in_place ? MPI_IN_PLACE : to, one.count, one.type, root_, group_.comm);
      });
    }
    release(one);
    release(all.layout);
  }

  void alltoall() {
    Layout in = any_layout(6 * count_);
    Layout out = any_layout(6 * count_);
    const Bytes data = noise(in.span * group_.size);
    const bool in_place = below(random_, 3) == 0;
    compare("alltoall", noise(out.span * group_.size), [&](const Calls& calls, std::byte* to) {
      return calls.Alltoall(in_place ? MPI_IN_PLACE : data.data(), in.count, in.type, to, out.count, out.type,
                            group_.comm);
    });
    release(in);
    release(out);
  }

  void alltoallv() {
    // counts[i][k]: from rank i to rank k; in place, both directions are equal
    const bool in_place = below(random_, 3) == 0;
    const auto n = static_cast<std::size_t>(group_.size);
    std::vector<std::vector<int>> counts;
    for (std::size_t i = 0; i < n; ++i) counts.push_back(some_counts());
    std::vector<int> sent = counts[static_cast<std::size_t>(group_.rank)];
    std::vector<int> received;
    for (std::size_t i = 0; i < n; ++i) {
      const auto me = static_cast<std::size_t>(group_.rank);
      received.push_back(in_place ? counts[std::min(i, me)][std::max(i, me)] : counts[i][me]);
    }
    Vector in = vector_of(sent);
    Vector out = vector_of(received);
    const Bytes data = noise(in.span);
    compare("alltoallv", noise(out.span), [&](const Calls& calls, std::byte* to) {
      return calls.Alltoallv(in_place ? MPI_IN_PLACE : data.data(), in.counts.data(), in.places.data(), in.layout.type,
                             to, out.counts.data(), out.places.data(), out.layout.type, group_.comm);
    });
    release(in.layout);
    release(out.layout);
  }

  /// Wrong on all ranks alike: MPI must see the arguments, and say what it always says.
  void wrong_arguments() {
    Bytes data(64);
    double x = 0;
    const auto class_of = [](int code) {
      int result = 0;
      MPI_Error_class(code, &result);
      return result;
    };
    const auto both = [&](const char* what, const auto& call) {
      const int a = class_of(call(tested()));
      const int b = class_of(call(reference()));
      expect(what, a == b && a != MPI_SUCCESS);
    };
    MPI_Comm comm = group_.comm;
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 50000000
    constexpr int kinds = 3;  // MPICH 5.0.2 has an assertion that fails for a null type
#else
    constexpr int kinds = 4;
#endif
    switch (below(random_, kinds)) {
      case 0: both("count", [&](const Calls& c) { return c.Bcast(data.data(), -1, MPI_INT, 0, comm); }); break;
      case 1: both("root", [&](const Calls& c) { return c.Bcast(data.data(), 1, MPI_INT, group_.size, comm); }); break;
      case 2:
        both("op", [&](const Calls& c) { return c.Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_BAND, comm); });
        break;
      default:
        both("type",
             [&](const Calls& c) { return c.Allreduce(MPI_IN_PLACE, &x, 1, MPI_DATATYPE_NULL, MPI_SUM, comm); });
        break;
    }
  }

  std::vector<Group> groups_;
  std::uint64_t seed_;
  std::uint64_t number_ = 0;
  Random random_;  // equal on all ranks
  Random own_;     // of this rank
  Group group_{};
  Base base_{};
  int count_ = 0;
  int root_ = 0;
  int operation_ = 0;  // index in the operations of the type
  int wrong_ = 0;
  bool is_large_ = false;
  bool reference_is_large_ = false;  // equal on all ranks
  lockstep_calls current_{
#define LOCKSTEP_CURRENT(name, parameters, arguments) &MPI_##name,
      LOCKSTEP_EACH_CALL(LOCKSTEP_CURRENT)
#undef LOCKSTEP_CURRENT
  };
};

Group group_of(MPI_Comm comm) {
  Group group{comm, 0, 0};
  MPI_Comm_rank(comm, &group.rank);
  MPI_Comm_size(comm, &group.size);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return group;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  find_library();
  const auto calls = static_cast<std::uint64_t>(argc > 1 ? std::atoll(argv[1]) : 1000);
  const auto seed = static_cast<std::uint64_t>(argc > 2 ? std::atoll(argv[2]) : 1);
  const Group world = group_of(MPI_COMM_WORLD);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, world.rank % 2, 0, &half);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world.rank, &reversed);
  // a rank that ends with an error makes the launcher end the others, with all that they have not yet written
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int wrong = 0;
  {
    Test test({world, group_of(copy), group_of(half), group_of(reversed), group_of(MPI_COMM_SELF)}, seed);
    for (std::uint64_t call = 0; call < calls; ++call) test.run(call);
    wrong = test.wrong();
  }
  int total = 0;
  library.Allreduce(&wrong, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (world.rank == 0) std::printf("%llu calls, %d wrong\n", static_cast<unsigned long long>(calls), total);
  for (MPI_Comm* comm : {&copy, &half, &reversed}) MPI_Comm_free(comm);
  MPI_Finalize();
  return total == 0 ? 0 : 1;
}
