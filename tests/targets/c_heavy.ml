(* SPDX-License-Identifier: Apache-2.0 *)
(* c_heavy [ROUNDS]: lets C code allocate blocks: strings, Bytes, Bigarrays,
   unmarshalled data. Their Memprof callbacks run later than the sample. *)

let rounds = Handshake.int_argument 1 200_000

let[@inline never] concatenate i = String.concat "," [ string_of_int i; "value"; "of"; "item" ]
let[@inline never] copy_bytes s = Bytes.cat (Bytes.of_string s) (Bytes.make 64 '-')

let[@inline never] numbers i =
  Bigarray.Array1.init Bigarray.float64 Bigarray.c_layout 8 (fun k -> float (i + k))

let[@inline never] round_trip i : int list * string =
  Marshal.from_string (Marshal.to_string ([ i; i + 1; i + 2 ], "text") []) 0

let[@inline never] formatted i = Printf.sprintf "%08d %s %.3f" i "text" (float i)

let work () =
  let sum = ref 0 in
  for i = 1 to rounds do
    let s = concatenate i in
    let b = copy_bytes s in
    let n = numbers i in
    let l, t = round_trip i in
    let f = formatted i in
    sum :=
      (!sum + Bytes.length b + int_of_float n.{3} + List.hd l + String.length t + String.length f)
      land 0xFFFFFFF
  done;
  !sum

let () = Handshake.serve_work work
