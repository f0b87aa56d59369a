(* SPDX-License-Identifier: Apache-2.0 *)
(* stacks [ITERATIONS]: allocates with every shape of stack that the runtime
   knows: deep and mutual recursion, callbacks from C, exceptions across frames,
   finalisers, signal handlers, threads, unmarshalling, combined allocations,
   inlined functions, closures, functors. Runs for ITERATIONS rounds, or until "exit"
   if 0. "stat" and the end print {"iterations":N,"checksum":N}. *)

let iterations = Handshake.int_argument 1 0
let sink = ref 0
let use x = sink := (!sink + x) land 0xFFFFFFF

module Recursion = struct
  let[@inline never] rec deep n = if n = 0 then [] else (n, n) :: deep (n - 1)
  let[@inline never] rec even n = if n = 0 then [] else n :: odd (n - 1)
  and[@inline never] odd n = if n = 0 then [] else (n * 2) :: even (n - 1)

  let run () =
    use (List.length (deep 10_000));
    use (List.length (even 500))
end

module From_c = struct
  (* Hashtbl.hash and compare are C code without callbacks; sorting and iterating are
     OCaml code that calls closures. C code calls finalisers and signal handlers. *)
  let[@inline never] comparator a b =
    let pair = Sys.opaque_identity (a, b) in
    compare (fst pair) (snd pair)

  let table : (int, string) Hashtbl.t = Hashtbl.create 16

  let[@inline never] finaliser r =
    let l = Sys.opaque_identity [ !r; !r + 1; !r + 2 ] in
    use (List.length l)

  let[@inline never] make_finalised i =
    let r = Sys.opaque_identity (ref i) in
    Gc.finalise finaliser r

  let[@inline never] on_alarm _ =
    let cells = Sys.opaque_identity (List.init 20 (fun i -> (i, i))) in
    use (List.length cells)

  (* C code also calls at_exit functions and alarms at the end of a major cycle. *)
  let[@inline never] at_cycle_end () = use (Array.length (Sys.opaque_identity (Array.make 8 0.5)))

  let setup () =
    ignore (Gc.create_alarm at_cycle_end);
    at_exit (fun () -> use (List.length (List.init 100 string_of_int)));
    Sys.set_signal Sys.sigalrm (Sys.Signal_handle on_alarm);
    ignore (Unix.setitimer Unix.ITIMER_REAL { it_interval = 0.001; it_value = 0.001 })

  let run i =
    use (List.length (List.sort comparator (List.init 200 (fun k -> k * 7919 mod 211))));
    let a = Array.init 200 (fun k -> k * 7919 mod 211) in
    Array.sort comparator a;
    Hashtbl.replace table (i land 255) (string_of_int i);
    Hashtbl.iter (fun k v -> use (String.length (Printf.sprintf "%d=%s" k v))) table;
    let keep c = if Sys.opaque_identity [ c ] = [] then 'x' else c in
    use (String.length (String.map keep "a text of some length"));
    use (compare (List.init 50 Fun.id) (List.init 50 Fun.id));
    for k = 1 to 20 do make_finalised k done
end

module Exceptions = struct
  exception Found of int list

  let[@inline never] rec search n =
    let here = Sys.opaque_identity [ n ] in
    if n = 0 then raise (Found here) else (search (n - 1); use (List.length here))

  let[@inline never] catch_at n = try search n with Found l -> use (List.length (Sys.opaque_identity (n :: l)))

  let[@inline never] rec rethrow n =
    if n = 0 then failwith (Printf.sprintf "at %d" n)
    else try rethrow (n - 1) with Failure s -> raise (Failure (s ^ "."))

  let run () =
    for n = 1 to 40 do catch_at n done;
    (try rethrow 30 with Failure s -> use (String.length s));
    use (String.length (Printexc.raw_backtrace_to_string (Printexc.get_callstack 10)))
end

module Blocks = struct
  type point = { x : float; y : float; name : string option }

  (* One expression with several blocks is a combined allocation. *)
  let[@inline never] combined i =
    let block = Sys.opaque_identity ((i, (i + 1, Some i)), { x = float i; y = float (i + 1); name = Some "p" }) in
    use (fst (fst block))

  let[@inline never] large i =
    use (Array.length (Sys.opaque_identity (Array.make 5_000 i)));
    use (Array.length (Sys.opaque_identity (Array.init 300 (fun k -> [ k; i ]))))

  let[@inline never] custom i =
    let b = Bigarray.Array1.create Bigarray.int Bigarray.c_layout 64 in
    b.{i land 63} <- i;
    use b.{i land 63};
    use (Int64.to_int (Sys.opaque_identity (Int64.mul (Int64.of_int i) 3L)))

  let[@inline never] text i =
    let buffer = Buffer.create 16 in
    for k = 0 to 20 do Buffer.add_string buffer (string_of_int (i + k)) done;
    use (Buffer.length buffer);
    use (String.length (Printf.sprintf "%d %s %f %a" i "s" 1.5 (fun () l -> String.concat ";" l) [ "a"; "b" ]))

  let run i = combined i; large i; custom i; text i
end

module Unmarshal = struct
  type tree = Leaf of int | Node of tree * string * tree

  let rec make n = if n = 0 then Leaf n else Node (make (n - 1), String.make 5 'k', make (n - 1))
  let rec size = function Leaf _ -> 1 | Node (l, _, r) -> size l + size r
  let small = Marshal.to_string (make 3) []
  let large = Marshal.to_string (make 9) []
  let[@inline never] read s : tree = Marshal.from_string s 0

  let run i =
    use (size (read small));
    if i land 7 = 0 then use (size (read large));
    use (String.length (Marshal.to_string (i, [ i; i ]) []))
end

module Shapes = struct
  let[@inline always] inlined_pair a b = Sys.opaque_identity (a, b)
  let[@inline always] inlined_twice a = (inlined_pair a a, inlined_pair a (a + 1))
  let[@inline never] inlining i = let (a, _), (_, b) = Sys.opaque_identity (inlined_twice i) in use (a + b)

  let[@inline never] closures i =
    let add k = fun x -> Sys.opaque_identity (ref (x + k + i)) in
    use (List.fold_left (fun acc f -> acc + !(f 1)) 0 (List.init 20 add))

  let[@inline never] laziness i =
    let l = lazy (List.init 10 (fun k -> (k, i))) in
    use (List.length (Lazy.force l));
    use (Seq.fold_left ( + ) 0 (Seq.map (fun x -> x + 1) (List.to_seq [ i; i + 1; i + 2 ])))

  module type KEY = sig type t val make : int -> t val compare : t -> t -> int end
  module Int_map (K : KEY) = struct
    module M = Map.Make (K)
    let add i m k = M.add (K.make (k * i mod 97)) k m
    let[@inline never] fill i = List.fold_left (add i) M.empty (List.init 30 Fun.id)
    let run i = use (M.cardinal (fill i))
  end
  module By_int = Int_map (struct type t = int let make i = i let compare = Int.compare end)
  module By_text = Int_map (struct type t = string let make = string_of_int let compare = String.compare end)

  let run i = inlining i; closures i; laziness i; By_int.run i; By_text.run i
end

let stopping = ref false

let background index () =
  let i = ref index in
  while not !stopping do
    Blocks.run !i;
    Shapes.run !i;
    Unmarshal.run !i;
    incr i;
    Thread.yield ()
  done

let round i =
  if i land 15 = 0 then Recursion.run ();
  From_c.run i;
  Exceptions.run ();
  Blocks.run i;
  Unmarshal.run i;
  Shapes.run i;
  if i land 255 = 0 then Gc.full_major ()

let answer i = Printf.printf "{\"iterations\":%d,\"checksum\":%d}\n%!" i !sink

let rec run i =
  round i;
  if iterations > 0 then (if i < iterations then run (i + 1) else i)
  else
    match Handshake.poll_command () with
    | Some [ "exit" ] -> i
    | Some _ -> answer i; run (i + 1)
    | None -> run (i + 1)

let () =
  Printexc.record_backtrace true;
  let threads = List.init 3 (fun k -> Thread.create (background (k * 1_000)) ()) in
  From_c.setup ();
  Handshake.ready ();
  let last = run 1 in
  stopping := true;
  ignore (Unix.setitimer Unix.ITIMER_REAL { it_interval = 0.; it_value = 0. });
  List.iter Thread.join threads;
  answer last
