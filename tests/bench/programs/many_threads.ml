(* SPDX-License-Identifier: Apache-2.0 *)
(* many_threads [REQUESTS]: four threads, each of which parses and answers REQUESTS requests. They
   allocate small blocks and strings on their own stacks, and pass the runtime lock around. *)

let requests = Handshake.int_argument 1 60_000
let threads = 4

let[@inline never] make_request i =
  String.concat " " (List.init 12 (fun k -> Printf.sprintf "w%d" (((i * 31) + (k * 7)) mod 1000)))

let[@inline never] answer request =
  let sorted = List.sort compare (String.split_on_char ' ' request) in
  List.fold_left (fun sum word -> ((sum * 31) + Hashtbl.hash word) land 0xFFFFFF) 0 sorted

let serve checksum () =
  for i = 1 to requests do
    checksum := (!checksum + answer (make_request i)) land 0xFFFFFF
  done

let work () =
  let checksums = List.init threads (fun _ -> ref 0) in
  List.iter Thread.join (List.map (fun checksum -> Thread.create (serve checksum) ()) checksums);
  List.fold_left (fun sum checksum -> sum + !checksum) 0 checksums

let () = Handshake.serve_work work
