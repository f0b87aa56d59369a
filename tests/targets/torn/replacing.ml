(* SPDX-License-Identifier: Apache-2.0 *)
(* Continuously replaces structures (kinds.ml) under the names of module Torn. The argument is the number of workers, one to
   four, which are threads or, in OCaml 5, domains. Ends with its input. *)
open Kinds

let stopping = ref false
let workers = Handshake.int_argument 1 1

(* Replaces slowly, so that new texts lie on pages that already existed. *)
let replace_texts_slowly worker n =
  for i = 1 to 20 do
    for _ = 1 to 3_000 do ignore (Sys.opaque_identity i) done;
    replace_texts worker (n + i)
  done

(* Keeps the replaced structures unchanged for a while with collections, so that readers race with collections, not with
   the next replacement. The worker sleeps, because domains without a processor stall the others in a collection. It takes
   longer with more workers, which replace in turns. *)
let stay () =
  for _ = 1 to 5 * workers do
    for _ = 1 to 20 do ignore (Sys.opaque_identity (Array.make 100 0)) done;
    Unix.sleepf 0.0005
  done

let work worker () =
  let n = ref 0 in
  while not !(Sys.opaque_identity stopping) do
    incr n;
    List.iter (fun replace -> replace worker !n) [ replace_lists; replace_pairs; replace_trees; replace_floats ];
    if !n land 1023 = 0 then replace_texts_slowly worker !n else if !n land 7 = 0 then replace_texts worker !n;
    if !n land 31 = 0 then replace_tables worker !n;
    (* Rarely, so that these live long enough to die in the major heap. *)
    if !n mod 100 = 0 then replace_olds worker !n;
    if worker = 0 && !n mod 100 = 0 then Gc.compact ();
    if !n mod 10 = 0 then stay ()
  done

let () =
  ignore (Sys.opaque_identity Torn.list0);
  let join = Workers.all (List.init workers work) in
  Handshake.ready ();
  (try ignore (input_line stdin) with End_of_file -> ());
  stopping := true;
  join ()
