declare module "#verifier" {
  export class Refused extends Error {}
  export function verify(proof: Uint8Array, trust: unknown): string;
  export function trusted(text: string): unknown;
}
