(* SPDX-License-Identifier: Apache-2.0 *)
(* Produces garbage at moments that the test chooses.

   "make" creates orders and keeps them; "drop" drops them; "begin" starts a major cycle of the collector,
   "major" finishes it, "full" collects everything; "tick" allocates a little. All answer {}. *)

type order = { id : int; a : int; b : int; c : int; d : int; e : int; f : int; g : int }

let make_order id = { id; a = 1; b = 2; c = 3; d = 4; e = 5; f = 6; g = 7 }
let orders = ref []
let small = ref (ref 0)

let make () =
  orders := List.init 20_000 make_order;
  Gc.minor ()

(* OCaml 4 starts a cycle only with an empty minor heap, which Memprof's callbacks may prevent. *)
let begin_cycle () =
  for _ = 1 to 20 do
    Gc.minor ();
    ignore (Gc.major_slice 1)
  done

let tick () =
  for i = 1 to 1_000 do
    small := ref i
  done

let commands =
  [
    ("make", make);
    ("drop", fun () -> orders := []);
    ("begin", begin_cycle);
    ("major", Gc.major);
    ("full", Gc.full_major);
    ("tick", tick);
  ]

let rec serve () =
  match Handshake.command () with
  | [ command ] when List.mem_assoc command commands ->
      (List.assoc command commands) ();
      print_endline "{}";
      serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
