(* SPDX-License-Identifier: Apache-2.0 *)
(* Functions that plugins have registered. The host calls them with a number of blocks and one
   of its functions. *)
let all : (string * (int -> (unit -> unit) -> unit)) list ref = ref []
let register name work = all := (name, work) :: !all
