(* SPDX-License-Identifier: Apache-2.0 *)
(* A heap like a server's, of the requested size: a table of records with strings and lists, a map, boxed numbers. "fill MB"
   fills it with at least MB MiB of blocks and answers the live MiB. The program then allocates a little every few
   milliseconds. "count" answers the runtime's counts of live blocks and words after a full collection. "fork" answers the
   duration of a fork whose child ends immediately. *)

module Names = Map.Make (String)

type customer = { name : string; address : string; mutable orders : order list; mutable total : float }
and order = { number : int; item : string; tags : string list; price : float; next : customer option }

let customers : (int, customer) Hashtbl.t = Hashtbl.create 1024
let names = ref Names.empty
let items = Array.init 100 (fun i -> Printf.sprintf "item %d of the catalogue" i)
let small = ref (ref 0)

let make_order number next =
  { number; item = items.(number mod 100); tags = [ string_of_int number; "paid" ]; price = float_of_int number; next }

let make_customer number before =
  let orders = List.init (number mod 8) (fun i -> make_order ((8 * number) + i) before) in
  let name = Printf.sprintf "customer %d" number in
  { name; address = String.make (number mod 64) 'x'; orders; total = 2. *. float_of_int number }

let rec fill words number before =
  if number mod 10_000 <> 0 || Gc.((quick_stat ()).heap_words) < words then begin
    let customer = make_customer number before in
    Hashtbl.replace customers number customer;
    if number mod 4 = 0 then names := Names.add customer.name customer !names;
    fill words (number + 1) (Some customer)
  end

let live () =
  Gc.full_major ();
  Gc.((stat ()).live_words) / 131_072

let fork () =
  let began = Unix.gettimeofday () in
  match Unix.fork () with
  | 0 -> Unix.kill (Unix.getpid ()) Sys.sigkill; 0.
  | child ->
      let seconds = Unix.gettimeofday () -. began in
      ignore (Unix.waitpid [] child);
      seconds

let count () =
  Gc.full_major ();
  let stat = Gc.stat () in
  Printf.printf "{\"live_blocks\":%d,\"live_words\":%d}\n%!" stat.live_blocks stat.live_words

let rec serve () =
  match Handshake.poll_command ~patience_s:0.005 () with
  | None ->
      for i = 1 to 100 do small := ref i done;
      serve ()
  | Some [ "fill"; mb ] ->
      fill (131_072 * int_of_string mb) 0 None;
      Printf.printf "{\"live_mb\":%d}\n%!" (live ());
      serve ()
  | Some [ "count" ] -> count (); serve ()
  | Some [ "fork" ] ->
      Printf.printf "{\"seconds\":%.6f}\n%!" (fork ());
      serve ()
  | Some _ -> ignore (Sys.opaque_identity (customers, !names, !small))

let () =
  Handshake.ready ();
  serve ()
