(* SPDX-License-Identifier: Apache-2.0 *)
(* What plugins have registered: called with a number of blocks and a function of the
   host's. *)
let all : (string * (int -> (unit -> unit) -> unit)) list ref = ref []
let register name work = all := (name, work) :: !all
