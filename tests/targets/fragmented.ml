(* SPDX-License-Identifier: Apache-2.0 *)
(* Builds a heap of mixed sizes and drops a share of it, in percent (argument 1).

   Commands: "compact" answers {"before":B,"after":A}, the resident bytes before and after
   Gc.compact; "exit". *)

let resident () =
  let status = open_in "/proc/self/status" in
  let rec find () =
    match Scanf.sscanf (input_line status) "VmRSS: %d" Fun.id with
    | kib -> kib * 1024
    | exception Scanf.Scan_failure _ -> find ()
  in
  let bytes = find () in
  close_in status;
  bytes

let blocks = Array.make 200_000 Bytes.empty

let rec serve () =
  match Handshake.command () with
  | [ "compact" ] ->
    let before = resident () in
    Gc.compact ();
    Printf.printf "{\"before\":%d,\"after\":%d}\n%!" before (resident ());
    serve ()
  | [ "exit" ] -> print_endline "{}"
  | _ -> print_endline "{}"; serve ()

let () =
  let given_up = Handshake.int_argument 1 60 in
  Random.init 7;
  Array.iteri (fun i _ -> blocks.(i) <- Bytes.make (16 + Random.int 2000) 'A') blocks;
  Array.iteri (fun i _ -> if Random.int 100 < given_up then blocks.(i) <- Bytes.empty) blocks;
  Gc.full_major ();
  Handshake.ready ();
  serve ()
