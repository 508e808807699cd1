! SPDX-FileCopyrightText: The lockstep authors
! SPDX-License-Identifier: Apache-2.0
!
! The module for Fortran, on any number of ranks: each generic call with each type of elements. Prints a line for each
! check that fails; exits with 1 if there is one.

#define LOCKSTEP_HERE file=__FILE__, line=__LINE__

program fortran_interface
  use, intrinsic :: iso_fortran_env
  use lockstep
  implicit none
  type(lockstep_environment) :: environment
  type(lockstep_communicator) :: world
  integer :: rank, ranks, failures, checks

  failures = 0
  checks = 0
  call lockstep_environment_create(environment)
  call lockstep_world(world, name='world')
  call lockstep_rank(world, rank)
  call lockstep_size(world, ranks)
  call test_reductions()
  call test_copies()
  call test_messages()
  call test_communicators()
  call test_errors()
  call lockstep_communicator_free(world)
  call lockstep_environment_free(environment)
  if (rank == 0) print '(i0, a, i0, a)', checks, ' checks, ', failures, ' failures'
  if (failures > 0 .or. checks < 15) stop 1

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    checks = checks + 1
    if (holds) return
    failures = failures + 1
    print '(a, i0, 4a)', 'rank ', rank, ': ', what, ' does not hold; last error: ', lockstep_last_error_text()
  end subroutine

  subroutine test_reductions()
    real(real32) :: singles(2, 3)
    real(real64) :: doubles(4), parts(2 * ranks), part(2)
    integer(int32) :: number, sum_of_ranks
    integer(int64) :: longs(2), results(2)
    integer :: i
    sum_of_ranks = ranks * (ranks - 1) / 2
    singles = real(rank, real32)
    call lockstep_all_reduce(world, singles, lockstep_sum, LOCKSTEP_HERE)
    call check(all(singles == real(sum_of_ranks, real32)), 'the sum of an array of rank 2')
    doubles = 1
    doubles(2) = rank
    call lockstep_all_reduce(world, doubles(2:3), lockstep_max)
    call check(doubles(1) == 1 .and. doubles(2) == ranks - 1 .and. doubles(4) == 1, 'the maximum of a part of an array')
    doubles = [(real(i, real64), i = 1, 4)]
    call lockstep_all_reduce(world, doubles(1:4:2), lockstep_sum)
    call check(doubles(2) == 2 .and. doubles(3) == 3 * ranks, 'the sum of every second element')
    number = rank
    call lockstep_all_reduce(world, number, lockstep_sum)
    call check(number == sum_of_ranks, 'the sum of a scalar')
    longs = [1_int64, int(rank, int64)]
    call lockstep_all_reduce(world, longs, results, lockstep_sum)
    call check(all(results == [ranks, sum_of_ranks]) .and. longs(1) == 1, 'the sum with an output')
    call lockstep_reduce(world, longs, lockstep_max, root=ranks - 1)
    call check(longs(2) == merge(ranks - 1, rank, rank == ranks - 1), 'reduce')
    parts = [(real(i, real64), i = 1, 2 * ranks)]
    call lockstep_reduce_scatter(world, parts, part, lockstep_mean)
    call check(all(part == [2 * rank + 1, 2 * rank + 2]), 'reduce_scatter')
  end subroutine

  subroutine test_copies()
    real(real32) :: values(3), own(2), whole(2, ranks)
    integer(int32) :: sent(ranks), received(ranks)
    integer(int64) :: long
    integer :: i
    values = real(rank, real32)
    call lockstep_broadcast(world, values, root=ranks - 1)
    call check(all(values == real(ranks - 1, real32)), 'broadcast')
    own = [real(rank, real32), -real(rank, real32)]
    call lockstep_all_gather(world, own, whole)
    call check(all(whole(1, :) == [(real(i, real32), i = 0, ranks - 1)]), 'all_gather')
    whole = 0
    call lockstep_gather(world, own, whole, root=0)
    call check(all(whole(2, :) == [(merge(-real(i, real32), 0.0, rank == 0), i = 0, ranks - 1)]), 'gather')
    call lockstep_scatter(world, whole, own, root=0)
    call check(own(1) == rank .and. own(2) == -rank, 'scatter')
    sent = [(10 * rank + i, i = 0, ranks - 1)]
    call lockstep_all_to_all(world, sent, received)
    call check(all(received == [(10 * i + rank, i = 0, ranks - 1)]), 'all_to_all')
    long = rank
    call lockstep_broadcast(world, long, root=0)
    call check(long == 0, 'broadcast of a scalar')
    call lockstep_barrier(world)
  end subroutine

  subroutine test_messages()
    real(real64) :: values(2)
    if (ranks == 1) return
    values = rank
    if (rank == 0) call lockstep_send(world, values, 1)
    if (rank == 1) call lockstep_recv(world, values, 0)
    call check(all(values == merge(0, rank, rank < 2)), 'a message')
  end subroutine

  subroutine test_communicators()
    include 'mpif.h'
    external :: MPI_Comm_split, MPI_Comm_free
    type(lockstep_communicator) :: reversed
    integer :: comm, number, ierror
    call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, comm, ierror)
    call lockstep_communicator_from(comm, reversed, name='reversed', fail_after_ms=120000)
    call lockstep_rank(reversed, number)
    call check(number == ranks - 1 - rank, 'a rank in a communicator of MPI')
    call lockstep_communicator_free(reversed)
    call MPI_Comm_free(comm, ierror)
    call lockstep_rank(reversed, number, ierror)
    call check(ierror == lockstep_invalid_argument, 'a communicator that was freed')
    call check(index(lockstep_last_error_text(), 'communicator is NULL') > 0, 'its text')
  end subroutine

  subroutine test_errors()
    integer(int64) :: long, completed
    real(real32) :: values(3)
    integer :: ierror
    long = 1
    call lockstep_all_reduce(world, long, lockstep_mean, ierror=ierror)
    call check(ierror /= lockstep_success, 'the mean of integers is refused')
    call check(index(lockstep_last_error_text(), 'the mean of i64 is f64') > 0, 'its text')
    call lockstep_recover(world, completed)
    if (ranks == 1) return
    values = 0
    if (rank == 1) then
      call lockstep_broadcast(world, values, root=0, ierror=ierror, LOCKSTEP_HERE)
    else
      call lockstep_all_reduce(world, values, lockstep_sum, ierror, LOCKSTEP_HERE)
    end if
    call check(ierror == lockstep_mismatch, 'a mismatch')
    call check(index(lockstep_last_error_text(), 'fortran_interface.F90:') > 0, 'the line of the call')
    if (rank == 0) call lockstep_abort(world, 'no more data')
    if (rank /= 0) then
      call lockstep_barrier(world, ierror)
      call check(ierror == lockstep_unavailable, 'an abort')
    end if
    call lockstep_recover(world, completed)
    call lockstep_barrier(world)
  end subroutine
end program
