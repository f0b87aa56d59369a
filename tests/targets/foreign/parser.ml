(* SPDX-License-Identifier: Apache-2.0 *)
(* Like Path, a name of the compiler's. *)

type token = Word of string | Number of { value : int ref }

let implementation = ref (List.init 5 (fun i -> if i mod 2 = 0 then Word (string_of_int i) else Number { value = ref i }))
