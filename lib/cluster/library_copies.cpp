// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/library_copies.hpp"

#include "base/check.hpp"

#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

namespace lockstep::detail {
namespace {

/// Numbers in a note, and its parts, are aligned to this.
constexpr std::size_t alignment = 4;

struct Note {
  ElfW(Nhdr) header;
  alignas(alignment) std::array<char, 9> name;  // that of the library, with a zero at its end
  alignas(alignment) std::array<char, sizeof LOCKSTEP_VERSION> version;
};

// By its name the compiler knows that the section holds notes, which linkers keep.
[[gnu::used, gnu::section(".note.lockstep")]] alignas(alignment) constinit const Note note{
    {sizeof(Note::name), sizeof(Note::version), 1}, {"lockstep"}, {LOCKSTEP_VERSION}};

/// The version that the note of this library has in [begin, begin + size); empty: there is none. Linkers join notes
/// with paddings of their own, so each place where one may be is looked at.
std::string version_in(const char* begin, std::size_t size) {
  for (std::size_t at = 0; at + offsetof(Note, version) <= size; at += alignment) {
    ElfW(Nhdr) header;
    std::memcpy(&header, begin + at, sizeof(header));
    if (header.n_namesz != note.name.size() || header.n_type != note.header.n_type) continue;
    if (std::memcmp(begin + at + offsetof(Note, name), note.name.data(), note.name.size()) != 0) continue;
    const char* const version = begin + at + offsetof(Note, version);
    return {version, ::strnlen(version, std::min<std::size_t>(header.n_descsz, size - at - offsetof(Note, version)))};
  }
  return {};
}

/// Adds `object` to `copies`, if it has a note of this library.
int add_copy(dl_phdr_info* object, std::size_t, void* copies) {
  for (const ElfW(Phdr) & segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers
    const auto* const begin = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    std::string version = version_in(begin, segment.p_memsz);
    if (version.empty()) continue;
    std::error_code failed;
    const std::string path = object->dlpi_name;
    static_cast<std::vector<LibraryCopy>*>(copies)->push_back(
        {path.empty() ? std::filesystem::read_symlink("/proc/self/exe", failed).string() : path, std::move(version)});
    break;
  }
  return 0;
}

}  // namespace

std::vector<LibraryCopy> library_copies() {
  std::vector<LibraryCopy> copies;
  ::dl_iterate_phdr(add_copy, &copies);
  return copies;
}

void check_for_one_copy(std::string_view call) {
  const std::vector<LibraryCopy> copies = library_copies();
  if (copies.size() <= 1) return;
  std::vector<std::string> texts(copies.size());
  std::ranges::transform(copies, texts.begin(),
                         [](const LibraryCopy& copy) { return fmt::format("{} ({})", copy.path, copy.version); });
  throw_error(
      Code::failed_precondition,
      "{}: this process has loaded several copies of lockstep, which cannot work together: {}; link all of them "
      "with one liblockstep.so",
      call, fmt::join(texts, ", "));
}

}  // namespace lockstep::detail
