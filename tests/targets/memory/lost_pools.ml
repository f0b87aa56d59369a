(* SPDX-License-Identifier: Apache-2.0 *)
(* Compacts a heap of argument 1 MiB while the process has the maximum number of mappings, so that the runtime cannot unmap
   the memory it releases. Commands: "fill" uses up the remaining mappings; "go" allocates; "exit". *)

external fill_mappings : int -> unit = "lost_pools_fill_mappings"

let () =
  let rows = Handshake.int_argument 1 64 * 1024 * 1024 / 264 / 31 in
  fill_mappings 8;
  let table = Array.init rows (fun _ -> Array.init 31 (fun i -> Bytes.make 255 (Char.chr (65 + i)))) in
  for i = 0 to rows - 1 do if i mod 2 = 0 then table.(i) <- [||] done;
  Gc.compact ();
  Array.fill table 0 (rows - 1) [||];
  Gc.compact ();
  Handshake.ready ();
  let rec serve () =
    match Handshake.command () with
    | [ "fill" ] -> fill_mappings 0; print_endline "{}"; serve ()
    | [ "go" ] ->
      for i = 1 to 100_000 do ignore (Sys.opaque_identity (string_of_int i)) done;
      print_endline "{}";
      serve ()
    | _ -> ignore (Sys.opaque_identity table)
  in
  serve ()
