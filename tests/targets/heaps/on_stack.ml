(* SPDX-License-Identifier: Apache-2.0 *)
(* A server whose orders are reachable only from its stack, so that no module determines their types. "take N" creates N
   orders, more than fit into the minor heap, and answers their total number. *)

type line = { item : string; mutable count : int; price : float }
type state = Open | Paid of { by : string; at : float } | Sent of line list
type order = { id : int; text : string; state : state; lines : line array }

let make_line id i = { item = Printf.sprintf "item %d of order %d" i id; count = i; price = float_of_int id *. 1.5 }

let make_state id lines =
  match id mod 3 with
  | 0 -> Open
  | 1 -> Paid { by = string_of_int id; at = float_of_int id }
  | _ -> Sent lines

let make_order id =
  let lines = List.init 5 (make_line id) in
  { id; text = String.make 20 'x'; state = make_state id lines; lines = Array.of_list lines }

let rec serve orders =
  match Handshake.poll_command ~patience_s:0.005 () with
  | None -> serve orders
  | Some [ "take"; count ] ->
      let first = List.length orders in
      let orders = List.fold_left (fun all i -> make_order (first + i) :: all) orders (List.init (int_of_string count) Fun.id) in
      Gc.full_major ();
      Printf.printf "{\"orders\":%d}\n%!" (List.length orders);
      let more = serve orders in
      more + List.length (Sys.opaque_identity orders)
  | Some _ -> List.length orders

let () =
  Handshake.ready ();
  exit (min 0 (serve []))
