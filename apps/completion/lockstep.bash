# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Completion of the options of the programs in bash. It reads them from --help, once per shell and program.
#
# shellcheck shell=bash

declare -A _lockstep_known

# Sets `options` to the options of the program with path $1.
_lockstep_read_options() {
  if [[ -z ${_lockstep_known[$1]:-} ]]; then
    # An option begins its line; its description follows after two spaces.
    _lockstep_known[$1]=$("$1" --help 2>/dev/null </dev/null | sed -nE 's/^ {0,4}(-.*)/\1/p' | sed 's/  .*//' |
      grep -oE '(^|[[ ,])--?[[:alpha:]][[:alnum:]_-]*' | tr -d "[ ," | sort -u)
  fi
  options=${_lockstep_known[$1]}
}

_lockstep() {
  local program=${1/#\~/$HOME} word=${COMP_WORDS[COMP_CWORD]} options i
  COMPREPLY=()
  [[ $word == -* ]] || return
  if [[ ${program##*/} == lockstep-run ]]; then
    # The options after PROGRAM are those of PROGRAM, which is not started unless it is one of lockstep.
    for ((i = 1; i < COMP_CWORD; ++i)); do
      if [[ ${COMP_WORDS[i - 1]} != --launcher ]] && type -P -- "${COMP_WORDS[i]}" >/dev/null; then
        program=${COMP_WORDS[i]}
        [[ ${program##*/} == lockstep-* ]] || return
        break
      fi
    done
  fi
  _lockstep_read_options "$program"
  mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}

complete -o default -F _lockstep lockstep-descent lockstep-diff lockstep-doctor lockstep-explain lockstep-hello lockstep-overlap lockstep-perf \
  lockstep-plot lockstep-run lockstep-trace lockstep-train
