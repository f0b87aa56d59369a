(* SPDX-License-Identifier: Apache-2.0 *)
(* Requests a snapshot of itself at a point between two allocations, through the linked agent.
   "work" allocates, "point NAME" answers whether a snapshot was taken. *)

let list = ref []
let before_point = 1_000

let rec serve () =
  match Handshake.command () with
  | [ "work" ] ->
    for i = 1 to 100_000 do
      ignore (Sys.opaque_identity (Array.make 3 i))
    done;
    print_endline "done";
    serve ()
  | [ "point"; name ] ->
    list := List.init before_point (fun i -> (i, i, i));
    let taken = Memprof_agent.snapshot name in
    list := [];
    Printf.printf "{\"taken\":%b}\n%!" taken;
    serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
