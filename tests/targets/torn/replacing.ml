(* SPDX-License-Identifier: Apache-2.0 *)
(* Structures that are replaced all the time (kinds.ml), by the names of module Torn. The argument is how many threads, of
   OCaml 5 domains, do that, one to four. Ends with its input. *)
open Kinds

let stopping = ref false
let workers = Handshake.int_argument 1 1

(* So slowly that what is new lies on a page that was there before. *)
let replace_texts_slowly worker n =
  for i = 1 to 20 do
    for _ = 1 to 3_000 do ignore (Sys.opaque_identity i) done;
    replace_texts worker (n + i)
  done

(* What has been replaced stays for a while in which collections go on, so that it is they who overtake a reader, not what
   comes next. Asleep: domains that have no processor leave the others in the middle of a collection. The longer the more
   workers there are, who replace in turns. *)
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
    (* Seldom: these live long enough to die in the major heap. *)
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
