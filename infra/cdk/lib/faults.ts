/**
 * What is wrong with the properties of one construct or call. All of it goes into one message, so that one
 * synthesis is enough to see it.
 */
export class Faults {
  private readonly found: string[] = [];

  /** Notes a wrong property: what it must be, and what it is. */
  public add(property: string, expected: string, got: unknown): void {
    this.note(`${property} must be ${expected}, got ${typeof got === 'string' ? JSON.stringify(got) : got}`);
  }

  /** Notes what is wrong, in free words. */
  public note(fault: string): void {
    this.found.push(fault);
  }

  /** Throws if anything was found. */
  public throwIfAny(subject: string): void {
    if (this.found.length > 0) throw new Error(`${subject}: ${this.found.join('; ')}`);
  }
}
