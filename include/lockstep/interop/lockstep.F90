! SPDX-FileCopyrightText: The lockstep authors
! SPDX-License-Identifier: Apache-2.0
!
! The collectives for Fortran 2018. Compile this file with the compiler of your program, and link liblockstep.so.
! Arrays of real32, real64, int32 and int64, of any rank, and scalars. README.md beside this file has an example.
!
! The last arguments of each call are optional. `ierror` gets lockstep_success or the code of an error, which
! lockstep_last_error_text explains. Without it, an error is printed and stops the program. `file` and `line` are
! shown in errors.
! If an array has a wrong size, the program stops on this rank, and the other ranks get an error that names this rank.

module lockstep_base
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env
  implicit none
  public

  ! Handles. Assignment copies the handle, not the object.
  type :: lockstep_environment
    type(c_ptr) :: handle = c_null_ptr
  end type
  type :: lockstep_communicator
    type(c_ptr) :: handle = c_null_ptr
  end type

  type :: lockstep_op
    integer(c_int) :: number
  end type
  type(lockstep_op), parameter :: lockstep_sum = lockstep_op(101_c_int)
  type(lockstep_op), parameter :: lockstep_mean = lockstep_op(102_c_int)
  type(lockstep_op), parameter :: lockstep_min = lockstep_op(103_c_int)
  type(lockstep_op), parameter :: lockstep_max = lockstep_op(104_c_int)
  type(lockstep_op), parameter :: lockstep_prod = lockstep_op(105_c_int)
  type(lockstep_op), parameter :: lockstep_band = lockstep_op(106_c_int)
  type(lockstep_op), parameter :: lockstep_bor = lockstep_op(107_c_int)
  type(lockstep_op), parameter :: lockstep_bxor = lockstep_op(108_c_int)

  integer, parameter :: lockstep_success = 0
  integer, parameter :: lockstep_invalid_argument = 1
  integer, parameter :: lockstep_failed_precondition = 2
  integer, parameter :: lockstep_unimplemented = 3
  integer, parameter :: lockstep_mismatch = 4
  integer, parameter :: lockstep_deadline_exceeded = 5
  integer, parameter :: lockstep_unavailable = 6
  integer, parameter :: lockstep_out_of_range = 7
  integer, parameter :: lockstep_data_loss = 8
  integer, parameter :: lockstep_internal = 9

  ! Numbers of lockstep.h, for the calls of lockstep_calls.inc.
  integer(c_int), parameter :: dtype_f32 = 3_c_int, dtype_f64 = 4_c_int, dtype_i32 = 7_c_int, dtype_i64 = 8_c_int

  interface
    function c_environment_create(environment) result(code) bind(C, name='lockstep_environment_create')
      import
      type(c_ptr) :: environment
      integer(c_int) :: code
    end function
    function c_environment_free(environment) result(code) bind(C, name='lockstep_environment_free')
      import
      type(c_ptr) :: environment
      integer(c_int) :: code
    end function
    function c_world(name, fail_after_ms, communicator) result(code) bind(C, name='lockstep_world')
      import
      character(kind=c_char), dimension(*), intent(in) :: name
      integer(c_int64_t), value :: fail_after_ms
      type(c_ptr) :: communicator
      integer(c_int) :: code
    end function
    function c_communicator_from_fortran(handle, name, fail_after_ms, communicator) result(code) bind(C, &
          name='lockstep_communicator_from_fortran')
      import
      integer(c_int), value :: handle
      character(kind=c_char), dimension(*), intent(in) :: name
      integer(c_int64_t), value :: fail_after_ms
      type(c_ptr) :: communicator
      integer(c_int) :: code
    end function
    function c_communicator_free(communicator) result(code) bind(C, name='lockstep_communicator_free')
      import
      type(c_ptr) :: communicator
      integer(c_int) :: code
    end function
    function c_rank(communicator, rank) result(code) bind(C, name='lockstep_rank')
      import
      type(c_ptr), value :: communicator
      integer(c_int) :: rank
      integer(c_int) :: code
    end function
    function c_size(communicator, ranks) result(code) bind(C, name='lockstep_size')
      import
      type(c_ptr), value :: communicator
      integer(c_int) :: ranks
      integer(c_int) :: code
    end function
    function c_all_reduce(communicator, input, output, count, dtype, op, file, line) result(code) bind(C, &
          name='lockstep_all_reduce')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: op
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_reduce(communicator, input, output, count, dtype, op, root, file, line) result(code) bind(C, &
          name='lockstep_reduce')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: op
      integer(c_int), value :: root
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_reduce_scatter(communicator, input, output, count, dtype, op, file, line) result(code) bind(C, &
          name='lockstep_reduce_scatter')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: op
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_broadcast(communicator, values, count, dtype, root, file, line) result(code) bind(C, &
          name='lockstep_broadcast')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: values
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: root
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_all_gather(communicator, input, output, count, dtype, file, line) result(code) bind(C, &
          name='lockstep_all_gather')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_gather(communicator, input, output, count, dtype, root, file, line) result(code) bind(C, &
          name='lockstep_gather')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: root
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_scatter(communicator, input, output, count, dtype, root, file, line) result(code) bind(C, &
          name='lockstep_scatter')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: root
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_all_to_all(communicator, input, output, count, dtype, file, line) result(code) bind(C, &
          name='lockstep_all_to_all')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: input
      type(c_ptr), value :: output
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_barrier(communicator, file, line) result(code) bind(C, name='lockstep_barrier')
      import
      type(c_ptr), value :: communicator
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_send(communicator, values, count, dtype, peer, file, line) result(code) bind(C, name='lockstep_send')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: values
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: peer
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_recv(communicator, values, count, dtype, peer, file, line) result(code) bind(C, name='lockstep_recv')
      import
      type(c_ptr), value :: communicator
      type(c_ptr), value :: values
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype
      integer(c_int), value :: peer
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_recover(communicator, completed, file, line) result(code) bind(C, name='lockstep_recover')
      import
      type(c_ptr), value :: communicator
      integer(c_int64_t) :: completed
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_abort(communicator, text, file, line) result(code) bind(C, name='lockstep_abort')
      import
      type(c_ptr), value :: communicator
      character(kind=c_char), dimension(*), intent(in) :: text
      character(kind=c_char), dimension(*), intent(in) :: file
      integer(c_int), value :: line
      integer(c_int) :: code
    end function
    function c_last_error_text() result(text) bind(C, name='lockstep_last_error_text')
      import
      type(c_ptr) :: text
    end function
    function c_strlen(text) result(length) bind(C, name='strlen')
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! The text of the last error of this thread.
  function lockstep_last_error_text() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char), dimension(:), pointer :: letters
    type(c_ptr) :: address
    integer :: i, length
    address = c_last_error_text()
    length = int(c_strlen(address))
    allocate (character(len=length) :: text)
    call c_f_pointer(address, letters, [length])
    do i = 1, length
      text(i:i) = letters(i)
    end do
  end function

  ! Passes a code on or, without `ierror`, prints the error and stops.
  subroutine finish(code, ierror)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: ierror
    if (present(ierror)) then
      ierror = int(code)
    else if (code /= lockstep_success) then
      call fail(lockstep_last_error_text())
    end if
  end subroutine

  subroutine fail(text)
    character(len=*), intent(in) :: text
    write (error_unit, '(2a)') 'lockstep: ', text
    flush (error_unit)
    error stop 1
  end subroutine

  ! `found`, the number of elements of an argument, which must be `expected`.
  function checked_count(argument, found, expected) result(count)
    character(len=*), intent(in) :: argument
    integer(c_int64_t), intent(in) :: found, expected
    integer(c_int64_t) :: count
    character(len=200) :: text
    count = found
    if (found == expected) return
    write (text, '(2a, i0, a, i0)') argument, ' has ', found, ' elements, but must have ', expected
    call fail(trim(text))
  end function

  ! The number of elements in each of `parts` equal parts of an argument.
  function checked_parts(argument, found, parts) result(count)
    character(len=*), intent(in) :: argument
    integer(c_int64_t), intent(in) :: found, parts
    integer(c_int64_t) :: count
    character(len=200) :: text
    count = found / parts
    if (count * parts == found) return
    write (text, '(2a, i0, a, i0)') argument, ' has ', found, ' elements, but must have a multiple of ', parts
    call fail(trim(text))
  end function

  function is_integer(dtype) result(holds)
    integer(c_int), intent(in) :: dtype
    logical :: holds
    holds = dtype == dtype_i32 .or. dtype == dtype_i64
  end function

  function c_text(text) result(terminated)
    character(len=*), intent(in), optional :: text
    character(kind=c_char, len=:), allocatable :: terminated
    terminated = c_null_char
    if (present(text)) terminated = trim(text)//c_null_char
  end function

  function c_line(line) result(number)
    integer, intent(in), optional :: line
    integer(c_int) :: number
    number = 0
    if (present(line)) number = int(line, c_int)
  end function

  function c_timeout(fail_after_ms) result(number)
    integer, intent(in), optional :: fail_after_ms
    integer(c_int64_t) :: number
    number = 0
    if (present(fail_after_ms)) number = int(fail_after_ms, c_int64_t)
  end function

  function rank_of(communicator) result(rank)
    type(lockstep_communicator), intent(in) :: communicator
    integer(c_int) :: rank
    call finish(c_rank(communicator%handle, rank))
  end function

  function ranks_of(communicator) result(ranks)
    type(lockstep_communicator), intent(in) :: communicator
    integer(c_int64_t) :: ranks
    integer(c_int) :: number
    call finish(c_size(communicator%handle, number))
    ranks = number
  end function

  subroutine lockstep_environment_create(environment, ierror)
    type(lockstep_environment), intent(out) :: environment
    integer, intent(out), optional :: ierror
    call finish(c_environment_create(environment%handle), ierror)
  end subroutine

  subroutine lockstep_environment_free(environment, ierror)
    type(lockstep_environment), intent(inout) :: environment
    integer, intent(out), optional :: ierror
    call finish(c_environment_free(environment%handle), ierror)
  end subroutine

  subroutine lockstep_world(communicator, name, fail_after_ms, ierror)
    type(lockstep_communicator), intent(out) :: communicator
    character(len=*), intent(in), optional :: name
    integer, intent(in), optional :: fail_after_ms
    integer, intent(out), optional :: ierror
    if (present(name)) then
      call finish(c_world(c_text(name), c_timeout(fail_after_ms), communicator%handle), ierror)
    else
      call finish(c_world(c_text('world'), c_timeout(fail_after_ms), communicator%handle), ierror)
    end if
  end subroutine

  ! `comm` is a communicator of the module mpi or of mpif.h or, of the module mpi_f08, its member MPI_VAL.
  subroutine lockstep_communicator_from(comm, communicator, name, fail_after_ms, ierror)
    integer, intent(in) :: comm
    type(lockstep_communicator), intent(out) :: communicator
    character(len=*), intent(in), optional :: name
    integer, intent(in), optional :: fail_after_ms
    integer, intent(out), optional :: ierror
    character(len=:), allocatable :: shown
    shown = 'communicator'
    if (present(name)) shown = name
    call finish(c_communicator_from_fortran(int(comm, c_int), c_text(shown), c_timeout(fail_after_ms), &
                                            communicator%handle), ierror)
  end subroutine

  subroutine lockstep_communicator_free(communicator, ierror)
    type(lockstep_communicator), intent(inout) :: communicator
    integer, intent(out), optional :: ierror
    call finish(c_communicator_free(communicator%handle), ierror)
  end subroutine

  subroutine lockstep_rank(communicator, rank, ierror)
    type(lockstep_communicator), intent(in) :: communicator
    integer, intent(out) :: rank
    integer, intent(out), optional :: ierror
    integer(c_int) :: number
    number = -1
    call finish(c_rank(communicator%handle, number), ierror)
    rank = int(number)
  end subroutine

  subroutine lockstep_size(communicator, ranks, ierror)
    type(lockstep_communicator), intent(in) :: communicator
    integer, intent(out) :: ranks
    integer, intent(out), optional :: ierror
    integer(c_int) :: number
    number = -1
    call finish(c_size(communicator%handle, number), ierror)
    ranks = int(number)
  end subroutine

  subroutine lockstep_barrier(communicator, ierror, file, line)
    type(lockstep_communicator), intent(in) :: communicator
    integer, intent(out), optional :: ierror
    character(len=*), intent(in), optional :: file
    integer, intent(in), optional :: line
    call finish(c_barrier(communicator%handle, c_text(file), c_line(line)), ierror)
  end subroutine

  subroutine lockstep_recover(communicator, completed, ierror, file, line)
    type(lockstep_communicator), intent(in) :: communicator
    integer(int64), intent(out) :: completed
    integer, intent(out), optional :: ierror
    character(len=*), intent(in), optional :: file
    integer, intent(in), optional :: line
    integer(c_int64_t) :: number
    number = -1
    call finish(c_recover(communicator%handle, number, c_text(file), c_line(line)), ierror)
    completed = number
  end subroutine

  subroutine lockstep_abort(communicator, text, ierror, file, line)
    type(lockstep_communicator), intent(in) :: communicator
    character(len=*), intent(in) :: text
    integer, intent(out), optional :: ierror
    character(len=*), intent(in), optional :: file
    integer, intent(in), optional :: line
    call finish(c_abort(communicator%handle, c_text(text), c_text(file), c_line(line)), ierror)
  end subroutine

end module

#define ELEMENT real(real32)
#define DTYPE dtype_f32
module lockstep_real32
#include "lockstep_calls.inc"
end module
#undef ELEMENT
#undef DTYPE

#define ELEMENT real(real64)
#define DTYPE dtype_f64
module lockstep_real64
#include "lockstep_calls.inc"
end module
#undef ELEMENT
#undef DTYPE

#define ELEMENT integer(int32)
#define DTYPE dtype_i32
module lockstep_int32
#include "lockstep_calls.inc"
end module
#undef ELEMENT
#undef DTYPE

#define ELEMENT integer(int64)
#define DTYPE dtype_i64
module lockstep_int64
#include "lockstep_calls.inc"
end module
#undef ELEMENT
#undef DTYPE

! The module that programs use.
module lockstep
  use lockstep_base, only: lockstep_environment, lockstep_communicator, lockstep_op, &
    lockstep_sum, lockstep_mean, lockstep_min, lockstep_max, lockstep_prod, lockstep_band, lockstep_bor, lockstep_bxor, &
    lockstep_success, lockstep_invalid_argument, lockstep_failed_precondition, lockstep_unimplemented, lockstep_mismatch, &
    lockstep_deadline_exceeded, lockstep_unavailable, lockstep_out_of_range, lockstep_data_loss, lockstep_internal, &
    lockstep_last_error_text, lockstep_environment_create, lockstep_environment_free, lockstep_world, &
    lockstep_communicator_from, lockstep_communicator_free, lockstep_rank, lockstep_size, lockstep_barrier, &
    lockstep_recover, lockstep_abort
  use lockstep_real32
  use lockstep_real64
  use lockstep_int32
  use lockstep_int64
  implicit none
  public
end module
