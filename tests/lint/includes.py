#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Every file includes, itself or through headers of lockstep, the headers of the names that it uses: the standard headers, and in lib/
those of lockstep. Prints what is missing.

  includes.py SOURCE

The builds of the lanes cannot find this: they precompile standard headers, and they compile several sources as one.
"""

import os
import re
import sys

FOLDERS = ['apps', 'bench', 'include', 'lib', 'python', 'testing', 'tests']

# header: the names of std that it declares; a name that several headers declare is in each
NAMES = {
    'algorithm': 'all_of any_of none_of find_if copy_n copy_if fill_n generate remove_if replace reverse rotate shuffle unique sort stable_sort '
                 'partial_sort nth_element lower_bound upper_bound equal_range binary_search max min max_element min_element minmax clamp count_if '
                 'transform for_each adjacent_find mismatch lexicographical_compare is_sorted ranges::sort ranges::find ranges::find_if ranges::all_of ranges::any_of '
                 'ranges::none_of ranges::copy ranges::fill ranges::transform ranges::equal ranges::count ranges::count_if ranges::max ranges::min '
                 'ranges::max_element ranges::min_element ranges::reverse ranges::unique ranges::contains ranges::lower_bound ranges::upper_bound '
                 'ranges::stable_sort ranges::is_sorted ranges::for_each ranges::remove_if ranges::adjacent_find ranges::generate',
    'any': 'any any_cast',
    'array': 'array to_array',
    'atomic': 'atomic atomic_ref atomic_bool atomic_thread_fence memory_order memory_order_relaxed memory_order_acquire memory_order_release '
              'memory_order_acq_rel memory_order_seq_cst atomic_flag',
    'barrier': 'barrier',
    'bit': 'bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount endian rotl rotr',
    'bitset': 'bitset',
    'charconv': 'from_chars to_chars from_chars_result to_chars_result',
    'chrono': 'chrono::steady_clock chrono::system_clock chrono::duration chrono::milliseconds chrono::seconds chrono::microseconds '
              'chrono::nanoseconds chrono::minutes chrono::duration_cast chrono_literals',
    'cmath': 'isnan isinf isfinite sqrt pow exp log log2 ceil floor llround lround ldexp frexp nextafter copysign signbit fma tanh cos sin',
    'complex': 'complex',
    'concepts': 'same_as convertible_to integral floating_point invocable derived_from default_initializable unsigned_integral signed_integral '
                'constructible_from copy_constructible move_constructible',
    'condition_variable': 'condition_variable condition_variable_any cv_status',
    'cstdio': 'FILE fopen fclose fread fwrite printf fprintf puts fputs fflush perror',
    'cstdlib': 'getenv abort exit _Exit strtol strtod atoi setenv quick_exit',
    'cstring': 'memcpy memset memcmp memmove memchr strlen strcmp strncmp strerror strchr strstr',
    'deque': 'deque',
    'exception': 'exception exception_ptr current_exception rethrow_exception make_exception_ptr uncaught_exceptions terminate set_terminate',
    'filesystem': 'filesystem::path filesystem::exists filesystem::remove filesystem::remove_all filesystem::create_directories filesystem::rename '
                  'filesystem::directory_iterator filesystem::file_size filesystem::temp_directory_path',
    'fstream': 'ifstream ofstream fstream',
    'functional': 'function hash plus minus multiplies less greater bind_front ref cref reference_wrapper invoke not_fn',
    'future': 'future promise async packaged_task shared_future',
    'initializer_list': 'initializer_list',
    'iomanip': 'setw setprecision setfill quoted',
    'iostream': 'cout cerr cin clog',
    'istream': 'istream ws',
    'iterator': 'back_inserter inserter istreambuf_iterator istream_iterator ostream_iterator iterator_traits distance prev next '
                'make_move_iterator reverse_iterator ssize contiguous_iterator random_access_iterator input_iterator forward_iterator',
    'latch': 'latch',
    'limits': 'numeric_limits',
    'list': 'list',
    'map': 'map multimap',
    'memory': 'unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this addressof allocator default_delete '
              'static_pointer_cast dynamic_pointer_cast construct_at destroy_at assume_aligned to_address align',
    'mutex': 'mutex recursive_mutex timed_mutex lock_guard unique_lock scoped_lock call_once once_flag try_to_lock defer_lock adopt_lock',
    'new': 'bad_alloc align_val_t nothrow launder hardware_destructive_interference_size bad_array_new_length',
    'numbers': 'numbers::pi',
    'numeric': 'accumulate iota gcd lcm partial_sum exclusive_scan inclusive_scan inner_product reduce transform_reduce midpoint',
    'optional': 'optional nullopt make_optional nullopt_t bad_optional_access',
    'ostream': 'ostream endl flush',
    'queue': 'queue priority_queue',
    'random': 'mt19937 mt19937_64 minstd_rand random_device uniform_int_distribution uniform_real_distribution normal_distribution '
              'bernoulli_distribution',
    'ranges': 'views::iota views::reverse views::transform views::filter views::zip views::take views::drop ranges::subrange',
    'regex': 'regex smatch regex_match regex_search regex_replace',
    'semaphore': 'counting_semaphore binary_semaphore',
    'set': 'set multiset',
    'shared_mutex': 'shared_mutex shared_lock',
    'source_location': 'source_location',
    'span': 'span as_bytes as_writable_bytes dynamic_extent',
    'sstream': 'stringstream istringstream ostringstream',
    'stdexcept': 'runtime_error logic_error invalid_argument out_of_range domain_error length_error overflow_error',
    'stop_token': 'stop_token stop_source stop_callback',
    'string': 'string to_string stoi stoul stoull stol stod getline basic_string char_traits u8string wstring',
    'string_view': 'string_view basic_string_view',
    'system_error': 'error_code system_error errc generic_category system_category make_error_code',
    'thread': 'thread jthread this_thread::sleep_for this_thread::yield this_thread::get_id this_thread::sleep_until',
    'tuple': 'tuple make_tuple tie apply tuple_size tuple_size_v tuple_element tuple_element_t forward_as_tuple ignore tuple_cat',
    'type_traits': 'is_same_v is_same decay_t remove_cvref_t conditional_t enable_if_t is_void_v is_trivially_copyable_v is_integral_v '
                   'is_floating_point_v is_arithmetic_v is_enum_v is_invocable_v invoke_result_t underlying_type_t is_signed_v is_unsigned_v '
                   'remove_const_t remove_reference_t add_const_t true_type false_type integral_constant bool_constant is_const_v is_base_of_v '
                   'is_constructible_v is_convertible_v is_default_constructible_v is_move_constructible_v is_copy_constructible_v void_t '
                   'common_type_t make_unsigned_t make_signed_t type_identity_t is_nothrow_move_constructible_v is_lvalue_reference_v '
                   'is_reference_v is_class_v is_pointer_v is_array_v is_constant_evaluated is_empty_v',
    'typeindex': 'type_index',
    'typeinfo': 'type_info bad_cast',
    'unordered_map': 'unordered_map unordered_multimap',
    'unordered_set': 'unordered_set',
    'utility': 'move forward exchange swap pair make_pair declval in_place in_place_t as_const index_sequence make_index_sequence '
               'index_sequence_for piecewise_construct cmp_less cmp_greater cmp_equal in_range unreachable integer_sequence',
    'variant': 'variant visit holds_alternative get_if monostate in_place_type',
    'vector': 'vector',
}

# names that more headers declare: what else serves
ALSO = {
    'swap': ['algorithm', 'memory', 'mutex', 'string', 'vector', 'optional'],
    'move': ['algorithm'],
    'invoke_result_t': ['functional'],
    'hash': ['string', 'string_view', 'memory', 'optional', 'variant'],
    'to_address': ['iterator'],
    'distance': ['iterator', 'vector', 'string', 'span', 'map', 'array', 'deque', 'set'],
    'next': ['vector', 'string', 'span', 'map', 'array', 'deque', 'set'],
    'prev': ['vector', 'string', 'span', 'map', 'array', 'deque', 'set'],
    'ssize': ['vector', 'string', 'span', 'map', 'array', 'deque', 'set', 'string_view'],
    'reverse_iterator': ['vector', 'string', 'span'],
    'exception_ptr': ['stdexcept'],
    'exception': ['stdexcept', 'new'],
    'memory_order': ['mutex'],
    'hardware_destructive_interference_size': ['atomic'],
    'tuple_size': ['utility', 'array'], 'tuple_size_v': ['utility', 'array'], 'tuple_element': ['utility', 'array'], 'tuple_element_t': ['utility', 'array'],
    'ignore': ['utility'],
    'pair': ['map', 'unordered_map', 'tuple'],
    'make_pair': ['map', 'unordered_map'],
    'in_place': ['optional', 'variant', 'any'],
    'initializer_list': ['vector', 'string', 'map', 'set', 'algorithm', 'span', 'array', 'optional', 'functional', 'utility', 'memory'],
    'ostream': ['iostream', 'sstream', 'fstream', 'iomanip'], 'endl': ['iostream', 'sstream', 'fstream'], 'flush': ['iostream', 'sstream'],
    'istream': ['iostream', 'sstream', 'fstream'], 'ws': ['iostream', 'sstream'],
    'getline': ['istream', 'iostream', 'sstream', 'fstream'],
    'string': ['sstream', 'fstream', 'stdexcept', 'iostream', 'filesystem', 'system_error'],
    'error_code': ['filesystem', 'charconv'], 'errc': ['charconv', 'filesystem'],
    'mutex': ['condition_variable', 'shared_mutex'], 'unique_lock': ['condition_variable', 'shared_mutex'], 'lock_guard': ['condition_variable'],
    'cv_status': ['mutex'],
    'quick_exit': [], 'allocator': ['vector', 'string'],
    'ranges::subrange': ['algorithm'],
    'setenv': ['stdlib.h'],
    'stop_token': ['thread'], 'stop_source': ['thread'],
    'size_t': [],
    'max': [], 'min': [],
    'reduce': [],
    'get_if': [], 'visit': [],
    'milli': [],
    'chrono_literals': ['thread', 'condition_variable'],
    'function': [],
    'false_type': ['concepts', 'utility', 'tuple'], 'true_type': ['concepts', 'utility', 'tuple'],
    'integral_constant': ['utility', 'concepts', 'tuple'],
    'char_traits': ['string_view'],
}
for kind in ('milliseconds', 'seconds', 'microseconds', 'nanoseconds', 'minutes', 'duration', 'steady_clock', 'system_clock', 'duration_cast'):
    ALSO[f'chrono::{kind}'] = ['thread', 'condition_variable', 'mutex', 'future']

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
USE = re.compile(r'\bstd::((?:chrono::|ranges::|views::|filesystem::|this_thread::|numbers::)?\w+)')

# What a file of lib/ or include/ declares outside of classes: functions, types, aliases.
NO_TYPE = 'return|else|if|for|while|switch|using|namespace|template|case|static_assert|extern|typedef|friend|delete|throw|new|class|struct|union|enum|concept'
FUNCTION = rf'(?!(?:{NO_TYPE})\b)(?:\[\[\w+\]\] )?[A-Za-z_][\w:<>,&* ]*?[ &*>](\w+)\('
ATTRIBUTES = r'(?:alignas\([^)]*\) |[A-Z_]{4,}(?:\([^)]*\))? |\[\[\w+\]\] )*'
KIND = r'(?:class|struct|union|enum class|enum|concept|using(?! enum))'
DECLARED = re.compile(rf'^(?:{FUNCTION}|{KIND} {ATTRIBUTES}(\w+))', re.MULTILINE)
# Names that classes, functions and templates declare: where one of these is used, no header may be needed.
INNER = re.compile(rf'^ +(?:{FUNCTION}|(?:friend )?{KIND} {ATTRIBUTES}(\w+))|\b(?:typename|class)(?:\.\.\.)? (\w+)|[\w>&*] (\w+)(?:[,)]| = \[)', re.MULTILINE)
OWN_USE = re.compile(r'(?<![\w.>:])((?:(?:lockstep::)?detail::|lockstep::)?)(\w+)\b(\()?')
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def headers_by_name():
    found = {}
    for header, names in NAMES.items():
        for name in names.split():
            found.setdefault(name, set()).add(header)
    for name, headers in ALSO.items():
        if name in found:
            found[name].update(headers)
    return found


class Tree:
    """The sources below a folder, and what each includes."""

    def __init__(self, source):
        self.source = source
        self.texts = {}
        self.closures = {}
        self.code = {}
        for top in FOLDERS:
            for folder, _, names in sorted(os.walk(os.path.join(source, top))):
                for name in sorted(names):
                    if name.endswith(('.hpp', '.cpp')):
                        path = os.path.relpath(os.path.join(folder, name), source)
                        with open(os.path.join(source, path), encoding='utf-8') as file:
                            self.texts[path] = file.read()
                        # without comments and literals, with the same lines
                        self.code[path] = NOISE.sub(lambda match: '\n' * match[0].count('\n'), self.texts[path])

    def resolve(self, path, name):
        """The file of lockstep that an include of `path` means, or None."""
        for folder in ('include', 'lib', os.path.dirname(path), 'testing', 'tests', '', 'apps'):
            candidate = os.path.normpath(os.path.join(folder, name))
            if candidate in self.texts:
                return candidate
        return None

    def closure(self, path):
        """The file, and what it includes, through headers of lockstep too: paths of lockstep, and the names of other headers."""
        if path not in self.closures:
            seen, pending = {path}, [path]
            while pending:
                current = pending.pop()
                for _, name in INCLUDE.findall(self.texts[current]):
                    own = self.resolve(current, name)
                    if own is not None and own not in seen:
                        pending.append(own)
                    seen.add(own or name)
            self.closures[path] = seen
        return self.closures[path]

    def own_names(self):
        """{name: (the files of lib/ and include/ that declare it, whether it is a type)}, if a header does, and no class or function has one of its own."""
        files, types, inner = {}, set(), set()
        for path, code in self.code.items():
            if path.startswith(('lib/', 'include/')):
                for function, kind in DECLARED.findall(code):
                    files.setdefault(function or kind, set()).add(path)
                    types.update([kind] if kind else [])
                inner.update(name for names in INNER.findall(code) for name in names)
        return {name: (paths, name in types) for name, paths in files.items()
                if name not in inner and any(path.endswith('.hpp') for path in paths)}


def missing_standard(tree, path, known):
    """Yields (line, name, header) of the first use of each standard header that is not included."""
    code, included, reported = tree.code[path], None, set()
    for match in USE.finditer(code):
        headers = known.get(match[1])
        if headers is None:
            continue
        included = tree.closure(path) if included is None else included
        first = min(headers, key=lambda header: (match[1] not in NAMES.get(header, '').split(), header))
        if not headers & included and first not in reported:
            reported.add(first)
            yield code.count('\n', 0, match.start()) + 1, 'std::' + match[1], first


def missing_own(tree, path, known):
    """Yields (line, name, header) of the first use of each name of lockstep whose header is not included."""
    code, included, reported = tree.code[path], tree.closure(path), set()
    for match in OWN_USE.finditer(code):
        paths, is_type = known.get(match[2], (included, False))
        if (is_type or match[3]) and not paths & included and match[2] not in reported:
            reported.add(match[2])
            header = min(header for header in paths if header.endswith('.hpp'))
            yield code.count('\n', 0, match.start()) + 1, match[2], header.split('/', 1)[1]


def missing(source):
    """Yields (path, line, name, header) for each name whose header is not included."""
    standard = headers_by_name()
    tree = Tree(source)
    own = tree.own_names()
    for path in tree.texts:
        for found in missing_standard(tree, path, standard):
            yield path, *found
        # headers.py compiles those of include/ alone
        if path.startswith('lib/'):
            for found in missing_own(tree, path, own):
                yield path, *found


def main():
    found = list(missing(os.path.abspath(sys.argv[1])))
    for path, line, name, header in found:
        print(f'{path}:{line}: uses {name} without #include <{header}>')
    print(f'{len(found)} missing includes')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
