/* SPDX-License-Identifier: Apache-2.0 */
/* Custom blocks that own chunks of malloc, counted by malloc's own sizes. Every byte of a chunk is
   written, so that it contains no stale pointers. */
#define CAML_NAME_SPACE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <caml/alloc.h>
#include <caml/custom.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/version.h>

enum { LISTS, FILES, NONE, ABSTRACT, NAKED, KINDS };
static long bytes[KINDS], chunks[KINDS];

static void count(int kind, void* chunk, int sign) {
  bytes[kind] += sign * (long)malloc_usable_size(chunk);
  chunks[kind] += sign;
}

struct node {
  struct node* next;
  char* text; /* a separate chunk */
};

static void free_list(value block) {
  struct node* node = *(struct node**)Data_custom_val(block);

  while (node) {
    struct node* next = node->next;

    count(LISTS, node->text, -1);
    count(LISTS, node, -1);
    free(node->text);
    free(node);
    node = next;
  }
}

static void close_file(value block) {
  FILE* file = *(FILE**)Data_custom_val(block);

  count(FILES, file->_IO_buf_base, -1);
  count(FILES, file, -1);
  fclose(file);
}

static struct custom_operations list_operations = {
    "test.list", free_list, custom_compare_default, custom_hash_default, custom_serialize_default,
    custom_deserialize_default, custom_compare_ext_default, custom_fixed_length_default};
static struct custom_operations file_operations = {
    "test.file", close_file, custom_compare_default, custom_hash_default, custom_serialize_default,
    custom_deserialize_default, custom_compare_ext_default, custom_fixed_length_default};

value c_owners_list(value length) {
  value block = caml_alloc_custom(&list_operations, sizeof(void*), 0, 1);
  struct node* first = NULL;

  for (long i = 0; i < Long_val(length); i++) {
    struct node* node = malloc(sizeof *node);

    memset(node, 0, malloc_usable_size(node));
    node->text = malloc(700);
    memset(node->text, 'x', malloc_usable_size(node->text));
    node->next = first;
    first = node;
    count(LISTS, node, 1);
    count(LISTS, node->text, 1);
  }
  *(struct node**)Data_custom_val(block) = first;
  return block;
}

/* A stream of the C library, which has a structure and a buffer. */
value c_owners_file(value path) {
  CAMLparam1(path);
  FILE* file = fopen(String_val(path), "r");
  value block;

  (void)!fgetc(file);
  count(FILES, file, 1);
  count(FILES, file->_IO_buf_base, 1);
  block = caml_alloc_custom(&file_operations, sizeof(void*), 0, 1);
  *(FILE**)Data_custom_val(block) = file;
  CAMLreturn(block);
}

/* Chunks that only C code keeps. */
static void** held;

value c_owners_hold(value size) {
  void** chunk = malloc((size_t)Long_val(size));

  memset(chunk, 0, malloc_usable_size(chunk));
  *chunk = held;
  held = chunk;
  count(NONE, chunk, 1);
  return Val_unit;
}

/* Large chunks have their own mappings, and only their beginning is touched. */
enum { LARGE = 500000, TOUCHED = 4096 };

static void* chunk_of(int kind, size_t size) {
  void* chunk = malloc(size);

  memset(chunk, 'x', size < LARGE ? malloc_usable_size(chunk) : TOUCHED);
  count(kind, chunk, 1);
  return chunk;
}

value c_owners_abstract(value size) {
  value block = caml_alloc_small(1, Abstract_tag);

  Field(block, 0) = (value)chunk_of(ABSTRACT, (size_t)Long_val(size));
  return block;
}

/* A record with a pointer out of the heap, which OCaml 4 allows. */
value c_owners_naked(value size) {
  value block = caml_alloc_small(1, 0);

#if OCAML_VERSION_MAJOR < 5
  Field(block, 0) = (value)chunk_of(NAKED, (size_t)Long_val(size));
#else
  Field(block, 0) = size;
#endif
  return block;
}

value c_owners_count(value kind) {
  value pair = caml_alloc_small(2, 0);

  Field(pair, 0) = Val_long(bytes[Long_val(kind)]);
  Field(pair, 1) = Val_long(chunks[Long_val(kind)]);
  return pair;
}
