/**
 * What is wrong with the properties of one construct or call. All of it is said at once: whoever
 * synthesises should have to read one message, not one a run.
 */
export class Faults {
  private readonly found: string[] = [];

  /** Notes a property that is not what it must be, with what it is. */
  public add(property: string, expected: string, got: unknown): void {
    this.note(`${property} must be ${expected}, got ${typeof got === 'string' ? JSON.stringify(got) : got}`);
  }

  /** Notes what is wrong in words of its own. */
  public note(fault: string): void {
    this.found.push(fault);
  }

  /** Throws if anything was found. */
  public throwIfAny(subject: string): void {
    if (this.found.length > 0) throw new Error(`${subject}: ${this.found.join('; ')}`);
  }
}
