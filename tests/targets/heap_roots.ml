(* SPDX-License-Identifier: Apache-2.0 *)
(* Keeps structures of all kinds through its globals, a root registered by C code and a thread's stack, and reports
   the words reachable from each root of a module, by Obj.reachable_words.

   "roots FILE" writes a line for each field of each module that points to a block: the offset of the module's block
   from caml_globals in bytes, the field, Obj.reachable_words, and the number of these words in the heap
   (heap_roots_stubs.c). It answers {"in_c":WORDS,"on_stack":WORDS,..} for other kinds of roots. *)

external modules : unit -> int = "heap_roots_modules"
external place : int -> int = "heap_roots_place"
external fields : int -> int = "heap_roots_fields"
external field : int -> int -> Obj.t = "heap_roots_field"
external heap_words : Obj.t -> int = "heap_roots_heap_words"
external keep_in_c : Obj.t -> unit = "heap_roots_keep"

(* The compiler does not know this number, so it cannot allocate values that depend on it statically. *)
let n = Sys.opaque_identity (Array.length Sys.argv)
let text i = string_of_int (i * n)

type shape = Dot | Circle of float * int ref | Named of { name : string; inner : shape list }

let list = List.init 1_000 text
let same_list = ref list
let tail = List.tl (List.tl list)
let table : (string, shape) Hashtbl.t = Hashtbl.create 16

module Texts = Map.Make (String)

let map = List.fold_left (fun map key -> Texts.add key (String.length key, [ key ]) map) Texts.empty list
let floats = Array.init 300 (fun i -> float_of_int (i + n))
let boxed = List.init 100 (fun i -> (float_of_int (i + n), Int64.of_int i, Nativeint.of_int i))
let bigarray = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (1_000 * n)
let long = Bytes.create (1_000_000 * n)
let buffer = Buffer.create (500 * n)
let waits = lazy (text 7 :: list)
let forced = lazy (text 8 :: tail)
let array = Array.init 400 (fun i -> if i mod 3 = 0 then Dot else Circle (1.5, ref i))
let weak = Weak.create (50 * n)
let failure = Failure (text 9)

(* Two closures in one block, both of which are kept. *)
let make_closures kept =
  let rec even i = if i = 0 then List.length kept = 0 else odd (i - 1)
  and odd i = if i = 0 then List.length kept > 0 else even (i - 1) in
  (even, odd)

let even, odd = make_closures (List.init 50 text)

let counter from =
  object
    val mutable count = from
    val seen = Hashtbl.create 4
    method next = Hashtbl.replace seen count (text count); count <- count + 1; count
  end

let an_object = counter n

type ring = { mutable next : ring option; number : int }

let ring =
  let first = { next = None; number = n } in
  let rec add last i = if i = 0 then last.next <- Some first else (let one = { next = None; number = i } in last.next <- Some one; add one (i - 1)) in
  add first 200;
  first

module Inner = struct
  let queue = Queue.create ()
  let stack = Stack.create ()
end

let fresh = ref []

let fill () =
  List.iteri (fun i key -> Hashtbl.replace table key (Named { name = key; inner = [ Circle (0.5, ref i); Dot ] })) list;
  List.iter (fun key -> Queue.add key Inner.queue; Stack.push (key, key) Inner.stack) tail;
  Weak.set weak 0 (Some list);
  Buffer.add_string buffer (text 10);
  ignore (Lazy.force forced, an_object#next);
  Gc.full_major ()

let words value = Obj.reachable_words value
let in_c = Obj.repr (List.init 30 text)
let never = Mutex.create ()

(* The frame keeps the list until it gets the mutex, which never happens. *)
let[@inline never] hold_on_stack kept told =
  told (words (Obj.repr kept));
  Mutex.lock never;
  ignore (Sys.opaque_identity kept)

let start_thread () =
  let count = ref 0 in
  Mutex.lock never;
  ignore (Thread.create (fun () -> hold_on_stack (List.init 40 text) (fun words -> count := words)) ());
  while !count = 0 do
    Thread.yield ()
  done;
  !count

let write path =
  let out = open_out path in
  for m = 0 to modules () - 1 do
    for f = 0 to fields m - 1 do
      let value = field m f in
      if Obj.is_block value then
        Printf.fprintf out "%d %d %d %d\n" (place m) f (words value) (heap_words value)
    done
  done;
  close_out out

(* ------------------------------------------------------------ finalisers *)

(* Registers `count` different functions, each of which keeps its own list. *)
let guard register count =
  List.init count (fun i ->
      let kept = List.init (i + 5) text in
      let finaliser _ = ignore (Sys.opaque_identity kept) in
      let guarded = ref i in
      register finaliser guarded;
      (guarded, words (Obj.repr finaliser)))

let sum guarded = List.fold_left (fun sum (_, words) -> sum + words) 0 guarded
let first = guard (fun finaliser value -> Gc.finalise finaliser value) 30
let last = guard (fun finaliser value -> Gc.finalise_last finaliser value) 20
let to_run = 10 (* number of finalisers, all but one of which stay due *)

let finalisers = Array.make to_run ignore

(* The first finaliser that runs calls [work], so that the others stay due meanwhile. The argument of [work] is the
   number of words that the others keep, including their values. *)
let work_in_a_finaliser work =
  let has_begun = ref false in
  let begin_work i =
    has_begun := true;
    finalisers.(i) <- ignore;
    work (heap_words (Obj.repr finalisers) - (to_run + 1) + ((to_run - 1) * 2))
  in
  for i = 0 to to_run - 1 do
    let kept = List.init 12 text in
    finalisers.(i) <- (fun _ -> ignore (Sys.opaque_identity kept); if not !has_begun then begin_work i);
    Gc.finalise finalisers.(i) (ref i)
  done;
  Gc.full_major ();
  while not !has_begun do
    ignore (Sys.opaque_identity (ref 0))
  done

let serve on_stack alone =
  let rec next () =
    match Handshake.command () with
    | [ "roots"; path ] ->
        fresh := List.init 20 text;
        write path;
        Printf.printf "{\"in_c\":%d,\"on_stack\":%d,\"first\":%d,\"last\":%d,\"to_run\":%d}\n%!" (words in_c) on_stack
          (sum first) (sum last) alone;
        next ()
    | _ -> ()
  in
  Handshake.ready ();
  next ()

let () =
  fill ();
  keep_in_c in_c;
  let on_stack = start_thread () in
  work_in_a_finaliser (serve on_stack);
  (* The thread waits forever. *)
  ignore (Sys.opaque_identity (same_list, boxed, bigarray, long, waits, array, failure, even, odd, ring, floats, map, fresh));
  Unix._exit 0
